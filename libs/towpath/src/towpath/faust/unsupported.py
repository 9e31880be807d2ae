"""What Faust has and Towpath has not, with what to use instead."""

from __future__ import annotations

from collections.abc import Mapping

_OUTSIDE = "run it beside the stages, as a program of its own with any Kafka client"
_HTTP = "read state through the state manager's HTTP interface"
_EVENTS = "the runtime decides when partitions move; agents need not know"
_KEYED = "put the window's start into the key, e.g. table[f'{key}/{time // 60}']"
_TYPES = "give topics key_type= and value_type="

APP: Mapping[str, str] = {
    "command": _OUTSIDE,
    "timer": _OUTSIDE,
    "crontab": _OUTSIDE,
    "task": _OUTSIDE,
    "service": _OUTSIDE,
    "page": _HTTP,
    "table_route": _HTTP,
    "topic_route": _HTTP,
    "web": _HTTP,
    "GlobalTable": "send the events to every reader's topic, or read the table through the state manager",
    "SetTable": "use Table with value_type=list and `default=list`",
    "SetGlobalTable": "use Table with value_type=list and `default=list`",
    "main": "start it by `towpath run <module>`",
    "worker_init": "put the code at the top of the module",
    "discover": "import the modules that define agents",
    "stream": "read topics by agents",
    "channel": "use a topic",
    "send": "use `await topic.send(…)` inside an agent",
    "start": "start it by `towpath run <module>`",
    "Worker": "start it by `towpath run <module>`",
    "LiveCheck": "use towpath.testing",
    "on_rebalance_complete": _EVENTS,
    "on_partitions_assigned": _EVENTS,
    "on_partitions_revoked": _EVENTS,
    "on_before_configured": "put the code at the top of the module",
    "on_configured": "put the code at the top of the module",
    "on_after_configured": "put the code at the top of the module",
    "on_worker_init": "put the code at the top of the module",
    "on_produce_message": "change the value before you send it",
    "producer": "use `await topic.send(…)` inside an agent",
    "consumer": "read topics by agents",
    "conf": "keep your own settings in your module",
}
"""Attribute of ``App`` → what to do instead."""

MODULE: Mapping[str, str] = {
    "Schema": _TYPES,
    "Codec": _TYPES,
    "Worker": "start the program by `towpath run <module>`",
    "Service": _OUTSIDE,
    "Sensor": "the stages have Prometheus metrics of their own",
    "Monitor": "the stages have Prometheus metrics of their own",
    "TumblingWindow": _KEYED,
    "HoppingWindow": _KEYED,
    "SlidingWindow": _KEYED,
    "current_event": "iterate over `stream.events()`",
    "Settings": "keep your own settings in your module",
    "Livecheck": "use towpath.testing",
    "cli": _OUTSIDE,
    "web": _HTTP,
    "auth": "give the connection's settings to the stages",
    "SASLCredentials": "give the connection's settings to the stages",
    "SSLCredentials": "give the connection's settings to the stages",
    "GSSAPICredentials": "give the connection's settings to the stages",
    "SetTable": "use Table with value_type=list and `default=list`",
    "GlobalTable": "read the table through the state manager",
    "uuid": "use Python's uuid module",
}
"""Name in the module ``faust`` → what to do instead."""

TABLE: Mapping[str, str] = {
    "window": _KEYED,
    "changelog_topic": "leave it out; Towpath names a stage's changelog",
    "on_recover": _EVENTS,
    "schema": _TYPES,
    "extra_topic_configs": "leave it out; Towpath makes the changelog",
    "on_changelog_event": _EVENTS,
    "recovery_buffer_size": "leave it out",
    "standby_buffer_size": "leave it out",
    "use_partitioner": "leave it out; a table lives where the agent's input is",
    "partitions": "leave it out; a table has as many partitions as the agent's input",
}
"""Argument of ``app.Table`` → what to do instead."""

TOPIC: Mapping[str, str] = {
    "pattern": "name the topics",
    "schema": _TYPES,
    "active_partitions": "leave it out; tasks are placed by the coordinator",
    "retention": "set it where the topic is made",
    "compacting": "set it where the topic is made",
    "deleting": "set it where the topic is made",
    "replicas": "set it where the topic is made",
    "config": "set it where the topic is made",
    "acks": "leave it out; outputs are transactional",
    "allow_empty": "leave it out; a tombstone arrives as None",
    "has_prefix": "write the whole name",
    "maxsize": "leave it out; the runtime bounds what is in flight",
}
"""Argument of ``app.topic`` → what to do instead."""

AGENT: Mapping[str, str] = {
    "concurrency": "scale the stage by replicas",
    "supervisor_strategy": "leave it out; after an error the event is a dead letter and the agent begins anew",
    "isolated_partitions": "keep state in tables, which are per partition",
    "use_reply_headers": "send to a topic that the caller reads",
    "on_error": "catch the exception in the agent",
    "schema": _TYPES,
}
"""Argument of ``app.agent`` → what to do instead."""

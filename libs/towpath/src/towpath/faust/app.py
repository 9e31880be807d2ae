"""The application: what ``faust.App`` is in a program, as far as Towpath carries it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from towpath.faust.agents import Agent, AgentFunction
from towpath.faust.errors import FaustProgramError, UnsupportedFaustFeatureError
from towpath.faust.planning import AppOptions, plan_app
from towpath.faust.runtime import Runtime
from towpath.faust.serializers import serde
from towpath.faust.tables import Table
from towpath.faust.topics import Topic
from towpath.faust.unsupported import AGENT, APP, TABLE, TOPIC
from towpath.query.errors import nearest
from towpath.query.names import check_app, check_topic
from towpath.query.plan import QueryPlan

DEFAULT_PARTITIONS = 8
"""Faust's default for topics that the application makes."""

DEFAULT_TIMEOUT_S = 300.0
"""Faust's default of ``stream_processing_timeout``."""

_BACKENDS = {"memory://": "memory", "rocksdb://": "rocksdb"}


class App:
    """An application: agents, topics and tables under one name."""

    def __init__(
        self,
        id: str,  # noqa: A002  # the name that Faust's programs use
        *,
        broker: str | Sequence[str] | None = None,
        store: str = "rocksdb://",
        topic_partitions: int = DEFAULT_PARTITIONS,
        key_serializer: str = "raw",
        value_serializer: str = "json",
        stream_processing_timeout: float = DEFAULT_TIMEOUT_S,
        version: int = 1,
        **settings: Any,
    ) -> None:
        """Begin an application.

        Args:
            id: prefix of its topics and groups; from version 2 on with ``-v2`` behind it, so that it starts afresh.
            broker: kept for the program's own use; a stage connects to the broker of its settings.
            store: ``rocksdb://`` or ``memory://``.
            topic_partitions: of the topics that Towpath makes.
            key_serializer: default form of keys, ``raw`` or ``json``.
            value_serializer: default form of values, ``json`` or ``raw``.
            stream_processing_timeout: longest time for one event, in seconds.
            version: of the application.
            settings: Faust's other settings; each is refused by name.

        Raises:
            UnsupportedFaustFeatureError: a setting that Towpath has not.
        """
        for setting in settings:
            raise UnsupportedFaustFeatureError(
                f"App setting {setting!r}", "leave it out; stages have settings of their own"
            )
        if store not in _BACKENDS:
            raise UnsupportedFaustFeatureError(f"store={store!r}", f"use one of {', '.join(_BACKENDS)}")
        name = id if version == 1 else f"{id}-v{version}"
        check_app(name, topic_partitions)
        serde(None, key_serializer, "raw", "the application")
        serde(None, value_serializer, "json", "the application")
        self.id = name
        self.broker = broker
        self.agents: dict[str, Agent] = {}
        self.tables: dict[str, Table] = {}
        self._serializers = (key_serializer, value_serializer)
        self._options = AppOptions(name, topic_partitions, _BACKENDS[store], stream_processing_timeout)
        self._runtime = Runtime()

    def topic(
        self,
        *topics: str,
        key_type: Any = None,
        value_type: Any = None,
        key_serializer: str | None = None,
        value_serializer: str | None = None,
        partitions: int | None = None,
        internal: bool = False,  # noqa: ARG002  # who makes a topic follows from who reads and writes it
        **options: Any,
    ) -> Topic:
        """Describe a topic.

        Args:
            topics: its name; several are not supported.
            key_type: of keys: str, bytes, int, float, a Record; None gives what the serializer gives.
            value_type: of values, likewise.
            key_serializer: ``raw`` or ``json``.
            value_serializer: ``json`` or ``raw``.
            partitions: where Towpath makes the topic.
            internal: has no effect.
            options: Faust's other arguments; each is refused by name.
        """
        _refuse("app.topic", options, TOPIC)
        if len(topics) != 1:
            raise UnsupportedFaustFeatureError(
                f"app.topic with {len(topics)} names", "give one topic, and one agent each"
            )
        check_topic(topics[0])
        return self._topic(topics[0], key_type, value_type, key_serializer, value_serializer, partitions)

    def Table(  # noqa: N802  # Faust's name
        self,
        name: str,
        *,
        default: Callable[[], Any] | None = None,
        key_type: Any = None,
        value_type: Any = None,
        help: str = "",  # noqa: A002, ARG002  # Faust's name; for people who read the program
        **options: Any,
    ) -> Table:
        """Make a table; see :class:`towpath.faust.tables.Table`.

        Args:
            name: unique in the application.
            default: makes the value of an absent key.
            key_type: type of the keys that iteration gives.
            value_type: type of the values, checked when they are read.
            help: what it is for.
            options: Faust's other arguments; each is refused by name.
        """
        _refuse("app.Table", options, TABLE)
        if name in self.tables:
            raise FaustProgramError(f"there is a table {name!r} already: give one of them another name")
        self.tables[name] = Table(name, default, key_type, value_type, self._runtime)
        return self.tables[name]

    def agent(
        self,
        channel: Topic | str | None = None,
        *,
        name: str | None = None,
        sink: Sequence[Any] = (),
        key_type: Any = None,
        value_type: Any = None,
        **options: Any,
    ) -> Callable[[AgentFunction], Agent]:
        """Make an agent of the function below.

        Args:
            channel: topic that it reads, or the topic's name; without, it gets one of its own.
            name: of the agent and its stage; by default the function's.
            sink: topics, agents or functions that get what it yields.
            key_type: of keys, if the topic is given by name or not at all.
            value_type: of values, likewise.
            options: Faust's other arguments; each is refused by name.
        """
        if options.get("concurrency", 1) == 1:
            options.pop("concurrency", None)
        _refuse("app.agent", options, AGENT)

        def decorate(function: AgentFunction) -> Agent:
            chosen = name or function.__name__
            if chosen in self.agents:
                raise FaustProgramError(f"there is an agent {chosen!r} already: give one of them a name=")
            topic = channel
            if not isinstance(topic, Topic):
                topic = self._topic(topic or f"{self.id}.{chosen}", key_type, value_type, None, None, None)
            self.agents[chosen] = Agent(chosen, function, topic, own_topic=channel is None, sink=sink)
            return self.agents[chosen]

        return decorate

    def plan(self) -> QueryPlan:
        """The stage graph.

        Raises:
            FaustProgramError: the program can't be planned.
        """
        return plan_app(self._options, list(self.agents.values()), self._runtime)

    def _topic(
        self, name: str, key_type: Any, value_type: Any, key: str | None, value: str | None, partitions: int | None
    ) -> Topic:
        default_key, default_value = self._serializers
        keys = serde(key_type, key, default_key, f"topic {name!r}")
        values = serde(value_type, value, default_value, f"topic {name!r}")
        return Topic(name, keys, values, partitions, self._runtime)

    def __getattr__(self, name: str) -> Any:
        """Name what Faust's applications have besides."""
        if name in APP:
            raise UnsupportedFaustFeatureError(f"app.{name}", APP[name])
        raise AttributeError(f"App has no attribute {name!r}{nearest(name, APP)}")


def _refuse(call: str, options: dict[str, Any], known: Mapping[str, str]) -> None:
    for option in options:
        if option not in known:
            raise TypeError(f"{call}() has no argument {option!r}{nearest(option, known)}")
        raise UnsupportedFaustFeatureError(f"{call}({option}=…)", known[option])

"""A Faust worker that counts by key, and journals what each event met: ``program.py CONFIG.json``, until SIGTERM.

It runs in environments with and without this repository's packages, so it imports nothing of them. Every event carries
its number among the events of its key. A table that has seen exactly the earlier ones says one less; more says that the
event came again, less that the table lacks earlier events. Neither is healed, so that a fault stays visible.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

import faust

EVENT, REVOKED, ASSIGNED, RECOVERED = range(4)
RECORD = struct.Struct("<Biqqiid")
"""What, partition, offset, key, number, found before, wall clock in s."""

REPORT_S = 1.0
BEAT_S = 0.05

config = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
journal = os.open(config["journal"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

app = faust.App(
    config["app"],
    broker=f"kafka://{config['bootstrap']}",
    store=config["store"],
    datadir=config["datadir"],
    topic_partitions=config["partitions"],
    topic_replication_factor=1,
    consumer_auto_offset_reset="earliest",
    broker_session_timeout=config["session_timeout_s"],
    broker_heartbeat_interval=1.0,
    table_standby_replicas=config["standbys"],
    processing_guarantee=config["guarantee"],
    web_enabled=False,
    **config["settings"],
)
source = app.topic(config["source"], key_serializer="raw", value_serializer="json")


def note(what: int, partition: int = -1, offset: int = -1, key: int = -1, number: int = -1, found: int = -1) -> None:
    """Write a line of the journal; it stays if this process is killed."""
    os.write(journal, RECORD.pack(what, partition, offset, key, number, found, time.time()))


if config["kind"] == "count":
    counts = app.Table("counts", default=int, key_type=str, value_type=int, partitions=config["partitions"])

    @app.agent(source)
    async def count(stream: Any) -> None:
        """Events by key."""
        async for event in stream.events():
            key, number = event.value["k"], event.value["n"]
            found = counts[key]
            if number > found:
                counts[key] = found + 1
            note(EVENT, event.message.partition, event.message.offset, int(key), number, found)

elif config["kind"] == "windows":
    windows = app.Table("windows", default=int, partitions=config["partitions"]).tumbling(
        config["window_s"], expires=config["expires_s"]
    )

    @app.agent(source)
    async def count_by_window(stream: Any) -> None:
        """Events by key and window of their time."""
        async for event in stream.events():
            key, number = event.value["k"], event.value["n"]
            found = windows[key].value()
            if number > found:
                windows[key] = found + 1
            note(EVENT, event.message.partition, event.message.offset, int(key), number, found)

elif config["kind"] == "sets":
    sets = app.SetTable("sets", partitions=config["partitions"])

    @app.agent(source)
    async def collect(stream: Any) -> None:
        """Sets of numbers by key; every third member is taken out by the one after it."""
        async for event in stream.events():
            key, number = event.value["k"], event.value["n"]
            members = sets[key]
            found = max(members.data, default=0)
            if number > found:
                members.add(found + 1)
                if found and found % 3 == 0:
                    members.discard(found)
            note(EVENT, event.message.partition, event.message.offset, int(key), number, found)


@app.on_partitions_revoked.connect
async def on_revoked(*_args: Any, **_kwargs: Any) -> None:
    """A rebalance has begun."""
    note(REVOKED)


@app.on_partitions_assigned.connect
async def on_assigned(*_args: Any, **_kwargs: Any) -> None:
    """Tables have been told of the new assignment, and are recovered next."""
    note(ASSIGNED)


@app.on_rebalance_complete.connect
async def on_recovered(*_args: Any, **_kwargs: Any) -> None:
    """Tables are recovered."""
    note(RECOVERED)


@app.task
async def report() -> None:
    """How late the loop is and how much memory is used, and what the driver says if there is one."""
    late_s: list[float] = []
    path = Path(config["report"])
    loop = asyncio.get_running_loop()
    written_s = loop.time()
    while True:
        due_s = loop.time() + BEAT_S
        await asyncio.sleep(BEAT_S)
        late_s.append(max(0.0, loop.time() - due_s))
        if loop.time() - written_s >= REPORT_S:
            written_s = loop.time()
            ordered = sorted(late_s)
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            said: dict[str, Any] = {
                "loop_delay_p99_ms": 1000 * ordered[len(ordered) * 99 // 100],
                "loop_delay_max_ms": 1000 * ordered[-1],
                "rss_bytes": pages * os.sysconf("SC_PAGE_SIZE"),
                "cpu_s": time.process_time(),
            }
            if config["store"].startswith("statemgr"):
                said["driver"] = driver()
            draft = path.with_suffix(".new")
            draft.write_text(json.dumps(said), encoding="utf-8")
            draft.replace(path)


def driver() -> Any:
    """What the driver reports, as JSON would have it."""
    import msgspec

    from statemgr.faust import report as report_of

    try:
        return msgspec.to_builtins(report_of(app))
    except LookupError:
        return None


if __name__ == "__main__":
    sys.argv = [sys.argv[0], "worker", f"--loglevel={config['loglevel']}", "--without-web"]
    app.main()

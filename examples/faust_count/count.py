"""Counts page views by user, as a Faust application: ``faust -A examples.faust_count.count worker -l info``."""

from __future__ import annotations

import os
from typing import Any

import faust
import msgspec

from statemgr.faust import report

app = faust.App(
    "faust-count",
    broker=os.environ.get("BROKER", "kafka://127.0.0.1:9092"),
    store=os.environ.get("STORE", "statemgr://"),  # the one line: it was "rocksdb://"
    topic_partitions=8,
    topic_replication_factor=1,
    broker_session_timeout=10.0,
)


class PageView(faust.Record):
    """Somebody has looked at a page."""

    user: str
    page: str


views = app.topic("page-views", key_type=str, value_type=PageView)
counts = app.Table("views", default=int, key_type=str, value_type=int)


@app.agent(views)
async def count(stream: Any) -> None:
    """Views by user; the topic is partitioned by user."""
    async for view in stream:
        counts[view.user] += 1


@app.page("/tables/")
async def tables(web: Any, _request: Any) -> Any:
    """How this worker's tables are: migrations, waits, loop delay, memory."""
    return web.json(msgspec.to_builtins(report(app)))

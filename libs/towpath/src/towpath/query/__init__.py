"""How queries are written and planned."""

from towpath.query import agg
from towpath.query.builder import DEFAULT_PARTITIONS, Query
from towpath.query.errors import (
    BatchDependentError,
    ColumnTypeError,
    GraphError,
    QueryError,
    QueryLoadError,
    UnknownColumnError,
)
from towpath.query.loading import load_query
from towpath.query.render import render_json, render_mermaid, render_text
from towpath.query.streams import EdgeTo, KeyedStream, MergedStreams, Stream, WindowedStream
from towpath.query.windows import Session, Until, Window, hopping, session, tumbling, until

__all__ = [
    "DEFAULT_PARTITIONS",
    "BatchDependentError",
    "ColumnTypeError",
    "EdgeTo",
    "GraphError",
    "KeyedStream",
    "MergedStreams",
    "Query",
    "QueryError",
    "QueryLoadError",
    "Session",
    "Stream",
    "UnknownColumnError",
    "Until",
    "Window",
    "WindowedStream",
    "agg",
    "hopping",
    "load_query",
    "render_json",
    "render_mermaid",
    "render_text",
    "session",
    "tumbling",
    "until",
]

"""How queries are written and planned."""

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
from towpath.query.streams import EdgeTo, KeyedStream, Stream

__all__ = [
    "DEFAULT_PARTITIONS",
    "BatchDependentError",
    "ColumnTypeError",
    "EdgeTo",
    "GraphError",
    "KeyedStream",
    "Query",
    "QueryError",
    "QueryLoadError",
    "Stream",
    "UnknownColumnError",
    "load_query",
    "render_json",
    "render_mermaid",
    "render_text",
]

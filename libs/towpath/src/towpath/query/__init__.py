"""How queries are written and planned."""

from towpath.query import agg, cep
from towpath.query.builder import DEFAULT_PARTITIONS, Query
from towpath.query.errors import (
    BatchDependentError,
    ColumnTypeError,
    GraphError,
    QueryError,
    QueryLoadError,
    UnknownColumnError,
)
from towpath.query.expressions import Expression, expr
from towpath.query.formats import avro, protobuf
from towpath.query.keyed_streams import KeyedStream
from towpath.query.loading import load_query
from towpath.query.render import render_json, render_mermaid, render_text
from towpath.query.streams import EdgeTo, MergedStreams, Stream
from towpath.query.svg import render_svg
from towpath.query.windowed_streams import WindowedStream
from towpath.query.windows import Every, Session, Until, Window, every, hopping, session, tumbling, until

__all__ = [
    "DEFAULT_PARTITIONS",
    "BatchDependentError",
    "ColumnTypeError",
    "EdgeTo",
    "Every",
    "Expression",
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
    "avro",
    "cep",
    "every",
    "expr",
    "hopping",
    "load_query",
    "protobuf",
    "render_json",
    "render_mermaid",
    "render_svg",
    "render_text",
    "session",
    "tumbling",
    "until",
]

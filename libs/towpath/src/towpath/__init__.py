"""Stateful stream pipelines on Kafka that change size without a pause.

A query is written with :class:`Query`, or event by event in the idiom of :mod:`towpath.faust`; both become the same
graph of stages, each of which runs as a service with any number of replicas.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from towpath.query import Query

__all__ = ["Query"]


def __getattr__(name: str) -> Any:
    """Import on first use: the command line must be able to say how many threads Polars may have before it loads."""
    if name == "Query":
        from towpath.query import Query

        return Query
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

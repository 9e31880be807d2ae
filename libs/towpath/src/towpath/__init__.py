"""Stateful stream pipelines on Kafka that change size without a pause.

A query is written with :class:`Query`, or event by event in the idiom of :mod:`towpath.faust`; both become the same
graph of stages, each of which runs as a service with any number of replicas.
"""

from towpath.query import Query

__all__ = ["Query"]

"""What can be wrong with a query, found before anything runs.

::

    QueryError                  (TowpathError, ValueError) it can't be planned: the message says where, what to change
    ├── UnknownColumnError      (LookupError) an expression, key or option names a column that is not there
    ├── ColumnTypeError         (TypeError) an expression or key does not fit the type of a column
    ├── BatchDependentError     a result would depend on how rows happen to be batched
    ├── GraphError              stages, edges or sinks do not form a query
    ├── UnknownStageError       (LookupError) a stage is named that the query does not have
    └── QueryLoadError          (ImportError) no query is found under the given name
"""

from __future__ import annotations

from typing import ClassVar

from towpath.errors import TowpathError, nearest

__all__ = [
    "BatchDependentError",
    "ColumnTypeError",
    "GraphError",
    "QueryError",
    "QueryLoadError",
    "UnknownColumnError",
    "UnknownStageError",
    "nearest",
]


class QueryError(TowpathError, ValueError):
    """The query can't be planned."""

    exit_status: ClassVar[int] = 2


class UnknownColumnError(QueryError, LookupError):
    """A name that is no column at this place of the query."""


class ColumnTypeError(QueryError, TypeError):
    """An expression does not fit the types of its columns."""


class BatchDependentError(QueryError):
    """An expression looks at other rows of the batch, so that its result would depend on batching."""


class GraphError(QueryError):
    """Stages, edges and sinks do not form a query."""


class UnknownStageError(QueryError, LookupError):
    """A stage that the query does not have."""


class QueryLoadError(QueryError, ImportError):
    """No query under the given name."""

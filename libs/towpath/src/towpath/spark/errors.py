"""Why a query does not run on Spark: one exception for one situation.

::

    TowpathError
    ├── NotOnSparkError    (QueryError) a step has no form on Spark    → the text names step, stage, reason, way out
    ├── SparkMissingError  (ImportError) PySpark is not installed      → install it
    └── SparkFailedError   (RuntimeError) Spark did not start, or ended a query with an error
"""

from __future__ import annotations

from typing import ClassVar

from towpath.errors import TowpathError
from towpath.query.errors import QueryError


class NotOnSparkError(QueryError):
    """A step of the query has no form on Spark, or none in this mode."""


class SparkMissingError(TowpathError, ImportError):
    """PySpark is not installed."""

    exit_status: ClassVar[int] = 2


class SparkFailedError(TowpathError, RuntimeError):
    """Spark did not start, or a query ended with an error."""

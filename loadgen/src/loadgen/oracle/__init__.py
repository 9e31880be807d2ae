"""The batch oracle: what a query must have put out, computed by Spark SQL from the input topic alone."""

from loadgen.oracle.expectations import QUERIES, Kind, Query
from loadgen.oracle.job import settled_end, verify_files, verify_topics
from loadgen.oracle.verify import Emit, Guarantee, VerifyResult, verify_outputs, verify_rows, verify_state

__all__ = [
    "QUERIES",
    "Emit",
    "Guarantee",
    "Kind",
    "Query",
    "VerifyResult",
    "settled_end",
    "verify_files",
    "verify_outputs",
    "verify_rows",
    "verify_state",
    "verify_topics",
]

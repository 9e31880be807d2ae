"""PySpark jobs beside a stream pipeline on Kafka: NEXMark load, latency, batch oracle.

- `loadgen.source`: the data source `nexmark`, for batch and Structured Streaming;
- `loadgen.load`: the load job; `loadgen.latency`: the latency job; `loadgen.oracle`: the batch oracle;
- `loadgen.cli`: the program `towpath-load`.

Importing the package itself is cheap; Spark is loaded by the modules that need it.
"""

from loadgen.errors import (
    ClockError,
    JarsError,
    JavaError,
    JobError,
    LoadgenError,
    OptionError,
    TopicError,
    UnreachableError,
)
from loadgen.options import SourceOptions
from loadgen.session import SessionSettings, start_session, stop_session

__all__ = [
    "ClockError",
    "JarsError",
    "JavaError",
    "JobError",
    "LoadgenError",
    "OptionError",
    "SessionSettings",
    "SourceOptions",
    "TopicError",
    "UnreachableError",
    "start_session",
    "stop_session",
]

"""The errors of the load generator: one exception, one situation, one reaction.

```
LoadgenError
├── JavaError (also FileNotFoundError)   install Java 17 or newer
├── JarsError (also FileNotFoundError)   make the connector's jars reachable
├── OptionError (also ValueError)        change the option that is named
├── TopicError                           create or alter the topic as said
├── UnreachableError                     start the broker; what runs already goes on when it is back
├── ClockError                           synchronise the clocks, or use one host
└── JobError (also RuntimeError)         the Spark job stopped; the cause is in the text
```
"""

from __future__ import annotations

__all__ = [
    "ClockError",
    "JarsError",
    "JavaError",
    "JobError",
    "LoadgenError",
    "OptionError",
    "TopicError",
    "UnreachableError",
]


class LoadgenError(Exception):
    """Base of all errors that a user can act on; its text is one line with cause and remedy."""


class JavaError(LoadgenError, FileNotFoundError):
    """No Java, or one that is too old for Spark."""


class JarsError(LoadgenError, FileNotFoundError):
    """The Kafka connector of Spark can't be had."""


class OptionError(LoadgenError, ValueError):
    """An option, or a combination of options, that has no meaning."""


class TopicError(LoadgenError):
    """A topic is missing or configured so that the measurement would be wrong."""


class UnreachableError(LoadgenError):
    """No broker answers, or none that leads the partitions in question."""


class ClockError(LoadgenError):
    """The broker's clock and this host's differ too much to measure latency."""


class JobError(LoadgenError, RuntimeError):
    """A Spark job ended with an error; the text has its innermost cause."""

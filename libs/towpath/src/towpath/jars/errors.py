"""Why jars can't be had: one exception for one situation.

::

    JarsError (TowpathError, RuntimeError)  the JVM side of a command can't be set up
    ├── JavaMissingError                  no usable Java runtime        → install one
    ├── JavaTooOldError                   a Java runtime below 17       → install a newer one
    ├── ResolverMissingError              neither Maven nor PySpark     → install one of them
    ├── JarDownloadError                  the resolver failed           → look at its words, try again
    └── JarCacheError                     the cache can't be written    → free space, other directory
"""

from typing import ClassVar

from towpath.errors import TowpathError

__all__ = [
    "JarCacheError",
    "JarDownloadError",
    "JarsError",
    "JavaMissingError",
    "JavaTooOldError",
    "ResolverMissingError",
]


class JarsError(TowpathError, RuntimeError):
    """The Java side of a command can't be set up; the text says cause and remedy."""

    exit_status: ClassVar[int] = 2


class JavaMissingError(JarsError):
    """There is no Java runtime, or the one that is named doesn't run."""


class JavaTooOldError(JarsError):
    """The Java runtime is older than Kafka 4 and Spark 4 need."""


class ResolverMissingError(JarsError):
    """Neither Maven nor PySpark (whose Ivy can resolve too) is installed."""


class JarDownloadError(JarsError):
    """Maven or Ivy ran and failed, or took longer than its deadline."""

    exit_status: ClassVar[int] = 1


class JarCacheError(JarsError):
    """The cache directory can't be written, or its disk is full."""

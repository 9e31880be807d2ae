"""Jars and the Java runtime that runs them, without a distribution to unpack.

`ensure_jars` downloads artifacts of pinned versions once per user, by Maven or by the
Ivy inside PySpark; `find_java` finds a runtime that is new enough.
"""

from towpath.jars.cache import ensure_jars, jar_cache_root
from towpath.jars.errors import (
    JarCacheError,
    JarDownloadError,
    JarsError,
    JavaMissingError,
    JavaTooOldError,
    ResolverMissingError,
)
from towpath.jars.java import MINIMUM_JAVA, Java, find_java
from towpath.jars.lock import locked
from towpath.jars.resolvers import IvyResolver, MavenResolver, Resolver, find_resolver

__all__ = [
    "MINIMUM_JAVA",
    "IvyResolver",
    "JarCacheError",
    "JarDownloadError",
    "JarsError",
    "Java",
    "JavaMissingError",
    "JavaTooOldError",
    "MavenResolver",
    "Resolver",
    "ResolverMissingError",
    "ensure_jars",
    "find_java",
    "find_resolver",
    "jar_cache_root",
    "locked",
]

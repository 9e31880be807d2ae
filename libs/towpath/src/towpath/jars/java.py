"""Finds a Java runtime and checks that it is new enough."""

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from towpath.jars.errors import JavaMissingError, JavaTooOldError

__all__ = ["MINIMUM_JAVA", "Java", "find_java", "parse_java_version"]

MINIMUM_JAVA = 17
"""Oldest Java release that Kafka 4's broker and Spark 4 both run on."""

_VERSION_DEADLINE = 30.0
"""Seconds for `java -version`: takes 0.1 s; thirty bear a machine that swaps."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that can be used.

    Attributes:
        executable: Path of the `java` program.
        release: Feature release, such as 17.
        build: All that it says of its version: two runtimes with the same text are the same build.
    """

    executable: Path
    release: int
    build: str


def find_java() -> Java:
    """Finds the Java runtime: that of `JAVA_HOME` when it is set, else `java` on the `PATH`.

    Raises:
        JavaMissingError: If there is none, or it doesn't run.
        JavaTooOldError: If it is older than `MINIMUM_JAVA`.
    """
    return _checked(_locate(os.environ.get("JAVA_HOME", ""), shutil.which("java")))


def parse_java_version(text: str) -> int | None:
    """Gives the feature release in what `java -version` prints, or None if there is none.

    `17.0.15`, `21-ea` and the old form `1.8.0_392` give 17, 21 and 8.
    """
    found = _VERSION.search(text)
    return int(found.group(1)) if found else None


def _locate(java_home: str, on_path: str | None) -> Path:
    if java_home:
        executable = Path(java_home) / "bin" / "java"
        if not executable.is_file():
            raise JavaMissingError(
                f"JAVA_HOME is {java_home}, which has no bin/java: "
                f"point it at a Java {MINIMUM_JAVA} (or newer) runtime, or unset it"
            )
        return executable
    if on_path is None:
        raise JavaMissingError(
            f"Java is missing: install a Java {MINIMUM_JAVA} (or newer) runtime, "
            "so that `java` is on the PATH or JAVA_HOME names it"
        )
    return Path(on_path)


@functools.lru_cache(maxsize=8)
def _checked(executable: Path) -> Java:
    build = _version_text(executable)
    release = parse_java_version(build)
    if release is None:
        raise JavaMissingError(
            f"{executable} doesn't tell its version: install a Java {MINIMUM_JAVA} (or newer) runtime"
        )
    if release < MINIMUM_JAVA:
        raise JavaTooOldError(
            f"{executable} is Java {release}, but Java {MINIMUM_JAVA} or newer is needed: "
            "install it, and set JAVA_HOME if there are several"
        )
    return Java(executable, release, build)


def _version_text(executable: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own java, no shell
            [executable, "-version"], capture_output=True, text=True, timeout=_VERSION_DEADLINE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissingError(
            f"{executable} doesn't run ({error}): install a Java {MINIMUM_JAVA} (or newer) runtime"
        ) from error
    return done.stderr + done.stdout

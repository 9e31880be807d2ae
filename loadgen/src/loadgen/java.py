"""Finds the Java that Spark will use, and says in one line what is wrong with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from loadgen.errors import JavaError

__all__ = ["MINIMUM_JAVA", "java_version", "parse_java_version", "require_java"]

MINIMUM_JAVA = 17
"""Spark 4 is compiled for Java 17."""

VERSION_TIMEOUT_S = 20.0
"""`java -version` takes 0.1 s; on a busy machine a cold start took 2 s, times ten."""

_REMEDY = "install a Java 17 runtime (Debian/Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME"


def parse_java_version(text: str) -> int | None:
    """Reads the major version from what `java -version` prints.

    Args:
        text: The output, for instance `openjdk version "17.0.15" 2025-04-15`.

    Returns:
        The major version (8 for the old form `1.8.0_292`), or None if there is none in the text.
    """
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not found:
        return None
    major = int(found[1])
    return int(found[2]) if major == 1 and found[2] else major


def java_version(environ: Mapping[str, str] | None = None) -> tuple[Path, int | None]:
    """Finds `java` by JAVA_HOME, else on the PATH, and asks for its version.

    Args:
        environ: Environment to look into; the process's own by default.

    Returns:
        Path of the executable and its major version (None: the answer was not understood).

    Raises:
        JavaError: There is no executable, or it does not answer.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environ.get("PATH"))
    if not found or not Path(found).is_file():
        where = f"JAVA_HOME={home} has no bin/java" if home else "no java on the PATH"
        raise JavaError(f"{where}; {_REMEDY}")
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own java
            [found, "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"{found} does not run ({error}); {_REMEDY}") from error
    return Path(found), parse_java_version(answer.stderr + answer.stdout)


def require_java(environ: Mapping[str, str] | None = None) -> int:
    """Makes sure that Spark will start.

    Args:
        environ: Environment to look into; the process's own by default.

    Returns:
        The major version found.

    Raises:
        JavaError: No Java, or one older than `MINIMUM_JAVA`.
    """
    path, version = java_version(environ)
    if version is None or version < MINIMUM_JAVA:
        raise JavaError(f"{path} is Java {version or 'of unknown version'}, Spark needs {MINIMUM_JAVA}; {_REMEDY}")
    return version

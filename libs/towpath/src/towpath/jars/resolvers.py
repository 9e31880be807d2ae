"""Downloads jars from Maven's central repository: by Maven, or by the Ivy inside PySpark.

Both are asked for the same thing, the run-time jars of some artifacts, and choose the
same files. Neither is told a host: each knows the central repository by itself, so a
mirror that the user has configured for Maven is used.
"""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from xml.sax.saxutils import escape

from towpath.jars.coordinates import Coordinate
from towpath.jars.errors import JarDownloadError, ResolverMissingError
from towpath.jars.java import find_java

__all__ = ["IvyResolver", "MavenResolver", "Resolver", "find_resolver"]

DOWNLOAD_DEADLINE = 900.0
"""Seconds for one download: about 60 MB, which a line of 1 Mbit/s carries in eight minutes."""

_COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_SAID_LINES = 5
"""Lines of a failed resolver that are shown: one for each artifact that it couldn't get, of the few asked for."""
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_TELLING = re.compile(r"\[ERROR\] \S|not found$|\[FAILED|[Ee]xception|access error")
_ADVICE = re.compile(r"re-run|Re-run|For more information|^\[ERROR\] \[Help")
"""Maven's hints on how to run it differently, which aren't for someone who didn't run it."""

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>towpath</groupId><artifactId>jars</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_POM_DEPENDENCY = (
    "    <dependency><groupId>{0.group}</groupId><artifactId>{0.artifact}</artifactId>"
    "<version>{0.version}</version>{1}</dependency>"
)
_POM_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"

_IVY = """\
<ivy-module version="2.0">
  <info organisation="towpath" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
_IVY_DEPENDENCY = (
    '    <dependency org="{0.group}" name="{0.artifact}" rev="{0.version}" conf="default->default" transitive="{1}"/>'
)
# Only the central repository, and no look at ~/.m2: Ivy takes a directory there that holds
# a pom without its jar (Maven leaves such ones) for a complete module, and then fails.
_IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


class Resolver(Protocol):
    """Something that can put artifacts, and what they need at run time, into a directory."""

    @property
    def name(self) -> str:
        """What the user knows it as."""

    def fetch(self, coordinates: Sequence[Coordinate], target: Path, work: Path, *, transitive: bool) -> None:
        """Puts the jars into `target`; `work` is a directory of its own, removed afterwards.

        Raises:
            JarDownloadError: If that fails, or takes longer than `DOWNLOAD_DEADLINE`.
        """


def find_resolver() -> Resolver:
    """Chooses Maven where it is installed, else the Ivy of an installed PySpark.

    Raises:
        ResolverMissingError: If there is neither.
    """
    maven = shutil.which("mvn")
    if maven is not None:
        return MavenResolver(Path(maven))
    ivy = _ivy_of_pyspark()
    if ivy is not None:
        return IvyResolver(ivy)
    raise ResolverMissingError(
        "nothing can download jars here: install Maven (`mvn` on the PATH) "
        "or PySpark into this Python environment, whose Ivy is used then"
    )


@dataclass(frozen=True, slots=True)
class MavenResolver:
    """Resolves by the `mvn` program, with the user's own settings and repository."""

    executable: Path
    name: str = "Maven"

    def fetch(self, coordinates: Sequence[Coordinate], target: Path, work: Path, *, transitive: bool) -> None:
        """See `Resolver.fetch`."""
        pom = work / "pom.xml"
        pom.write_text(render_pom(coordinates, transitive=transitive), encoding="utf-8")
        command: list[str | Path] = [self.executable, "-q", "-B", "-C", "-f", pom, _COPY_GOAL]
        _call(self.name, [*command, "-DincludeScope=runtime", f"-DoutputDirectory={target}"], work)


@dataclass(frozen=True, slots=True)
class IvyResolver:
    """Resolves by an Ivy jar, with a cache and settings of its own."""

    jar: Path
    name: str = "PySpark's Ivy"

    def fetch(self, coordinates: Sequence[Coordinate], target: Path, work: Path, *, transitive: bool) -> None:
        """See `Resolver.fetch`."""
        cache = work / "cache"
        settings, module = work / "ivysettings.xml", work / "ivy.xml"
        settings.write_text(_IVY_SETTINGS.format(cache=escape(str(cache))), encoding="utf-8")
        module.write_text(render_ivy(coordinates, transitive=transitive), encoding="utf-8")
        command: list[str | Path] = [find_java().executable, "-cp", self.jar, "org.apache.ivy.Main"]
        command += ["-settings", settings, "-ivy", module, "-cache", cache, "-confs", "default"]
        command += ["-types", "jar", "bundle", "-retrieve", f"{target}/[artifact]-[revision].[ext]", "-warn"]
        _call(self.name, command, work)


def render_pom(coordinates: Sequence[Coordinate], *, transitive: bool) -> str:
    """Renders a Maven project that depends on the coordinates, with or without what they need."""
    alone = "" if transitive else _POM_ALONE
    return _POM.format(dependencies="\n".join(_POM_DEPENDENCY.format(c, alone) for c in coordinates))


def render_ivy(coordinates: Sequence[Coordinate], *, transitive: bool) -> str:
    """Renders an Ivy module that depends on the coordinates, with or without what they need."""
    flag = "true" if transitive else "false"
    return _IVY.format(dependencies="\n".join(_IVY_DEPENDENCY.format(c, flag) for c in coordinates))


def _ivy_of_pyspark() -> Path | None:
    # find_spec of a top-level name looks for the package without running any of its code.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar"))), None)


def _call(name: str, command: Sequence[str | Path], work: Path) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - a program that was looked up, arguments of our own, no shell
            command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", stdin=subprocess.DEVNULL, timeout=DOWNLOAD_DEADLINE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise JarDownloadError(
            f"{name} didn't finish the download within {DOWNLOAD_DEADLINE:.0f} s: check the network, try again"
        ) from error
    except OSError as error:
        raise JarDownloadError(f"{name} doesn't run ({error}): repair or remove it") from error
    if done.returncode != 0:
        raise JarDownloadError(
            f"{name} couldn't download the jars (exit status {done.returncode}): "
            f"check the network, try again. It said:\n{_last_words(done.stdout)}"
        )


def _last_words(output: str) -> str:
    lines = [_ANSI.sub("", line).strip(" \t:") for line in output.splitlines()]
    telling = [line for line in lines if _TELLING.search(line) and not _ADVICE.search(line)]
    said = [line for line in (telling or lines) if line]
    return "\n".join(f"  {line}" for line in (said[:_SAID_LINES] if telling else said[-_SAID_LINES:]))

"""Finds a query by name: ``queries.key_count``, or ``my_module:my_query`` for a query of another name.

A module offers its query as ``query`` or ``app``. A function ``build(…) -> Query`` beside it makes it anew with
settings.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, get_type_hints, runtime_checkable

import msgspec

from towpath.errors import TowpathError
from towpath.query.errors import QueryLoadError, nearest
from towpath.query.plan import QueryPlan

ATTRIBUTES = ("query", "app")
"""Where a module's query is, in this order."""

BUILDER = "build"
"""The function that makes a module's query with settings."""

COLLECTION = "queries"
"""Package of queries that is looked through when a module's name comes without its package."""


@runtime_checkable
class Plannable(Protocol):
    """What can become a stage graph: a :class:`~towpath.query.Query` or a :class:`towpath.faust.App`."""

    def plan(self) -> QueryPlan:
        """The stage graph."""
        ...


def load_query(name: str, settings: Mapping[str, Any] | None = None) -> QueryPlan:
    """Import a module and plan its query; see :func:`find_query`."""
    return find_query(name, settings).plan()


def find_query(name: str, settings: Mapping[str, Any] | None = None) -> Plannable:
    """Import a module and give its query.

    Args:
        name: ``package.module`` or ``package.module:attribute``; importable from here or the working directory.
        settings: arguments of the module's ``build`` function; text is converted to the parameters' types.

    Raises:
        QueryLoadError: there is no such module or query, or no such setting; the message names the nearest.
        QueryError: the query itself is wrong.
    """
    module_name, _, attribute = name.partition(":")
    module = imported(module_name)
    if settings:
        return _checked(_build(module, settings), name)
    if attribute:
        return _checked(_attribute(module, attribute), name)
    for candidate in ATTRIBUTES:
        if hasattr(module, candidate):
            return _checked(getattr(module, candidate), f"{name}:{candidate}")
    offered = [
        key for key, value in vars(module).items() if isinstance(value, Plannable) and not inspect.isclass(value)
    ]
    hint = f"; write {name}:{offered[0]}" if offered else ""
    raise QueryLoadError(f"module {name!r} has no query: it should define `query = Query(…)` or `app = App(…)`{hint}")


def imported(name: str) -> ModuleType:
    """A module from here or the working directory.

    Raises:
        QueryLoadError: there is none of that name, it needs one that is not installed, or it fails by itself.
        QueryError: its query is wrong.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        raise QueryLoadError(f"{name!r} is no module name: write it as `package.module`, not as a path")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise QueryLoadError(f"module {name!r} needs {error.name!r}, which is not installed") from error
        raise QueryLoadError(f"there is no module {name!r}{_hint(name)}") from error
    except TowpathError:
        raise
    except SyntaxError as error:
        raise QueryLoadError(f"module {name!r}: {error.filename}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        what, *_ = str(error).splitlines() or [""]
        raise QueryLoadError(f"module {name!r}: {_place(error)}{type(error).__name__}: {what}") from error


def _place(error: Exception) -> str:
    """Where in the user's own files it was raised, or what of ours these called; empty if none of them had a part."""
    not_theirs = (str(Path(__file__).parent.parent), importlib.__file__, "<frozen")
    theirs = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(not_theirs)]
    return f"{theirs[-1].filename}, line {theirs[-1].lineno}: " if theirs else ""


def _hint(name: str) -> str:
    """The module that was meant: the nearest of its package, or the one of that name in :data:`COLLECTION`."""
    collected = f"{COLLECTION}.{name}"
    if collected in _siblings(collected):
        return f"; did you mean {collected!r}?"
    return nearest(name, _siblings(name))


def _siblings(name: str) -> Iterable[str]:
    """Modules of the package that should have had it."""
    package, _, _ = name.rpartition(".")
    try:
        spec = find_spec(package) if package else None
    except (ImportError, ValueError):
        return []
    if spec is None or spec.submodule_search_locations is None:
        return []
    return [f"{package}.{module.name}" for module in pkgutil.iter_modules(spec.submodule_search_locations)]


def _attribute(module: ModuleType, name: str) -> Any:
    if hasattr(module, name):
        return getattr(module, name)
    raise QueryLoadError(f"module {module.__name__!r} has no {name!r}{nearest(name, vars(module))}")


def _build(module: ModuleType, settings: Mapping[str, Any]) -> Any:
    build = getattr(module, BUILDER, None)
    if build is None:
        raise QueryLoadError(f"module {module.__name__!r} takes no settings: it has no function `{BUILDER}`")
    return build(**{name: _setting(build, name, value, module.__name__) for name, value in settings.items()})


def _setting(build: Callable[..., Any], name: str, value: Any, module: str) -> Any:
    known = inspect.signature(build).parameters
    if name not in known:
        raise QueryLoadError(f"{module} has no setting {name!r}{nearest(name, known)} (settings: {', '.join(known)})")
    try:
        return msgspec.convert(value, get_type_hints(build).get(name, Any), strict=False)
    except msgspec.ValidationError as error:
        raise QueryLoadError(f"{module}, setting {name}={value!r}: {error}") from error


def _checked(found: Any, name: str) -> Plannable:
    if not _is_query(found):
        raise QueryLoadError(f"{name} is {type(found).__name__}, not a query: it has no plan()")
    query: Plannable = found
    return query


def _is_query(value: object) -> bool:
    return isinstance(value, Plannable) and not inspect.isclass(value)

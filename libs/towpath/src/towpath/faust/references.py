"""Which topics, tables and agents a function can reach: found in its code, without running it.

Global names, closure cells and attributes of modules are followed, and functions of the program that it calls. What is
reached in another way (a list of topics, ``getattr``) is not found, and named by an error when it is used.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

from towpath.faust.agents import Agent
from towpath.faust.tables import Table
from towpath.faust.topics import Topic

T = TypeVar("T", Topic, Table, Agent)


def references(function: Any, kind: type[T]) -> list[T]:
    """Objects of this kind that the function can reach, in the order found."""
    found: dict[int, T] = {}
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        target = _plain_function(waiting.pop(0))
        if target is None or id(target) in seen:
            continue
        seen.add(id(target))
        for value in _reached(target):
            if isinstance(value, kind):
                found.setdefault(id(value), value)
            elif _same_program(value, function):
                waiting.append(value)
    return list(found.values())


def _reached(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    for name in sorted(names):
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            yield from (vars(value)[attribute] for attribute in sorted(names) if attribute in vars(value))
        elif value is not None:
            yield value


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of those defined inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _plain_function(value: Any) -> FunctionType | None:
    value = value.func if isinstance(value, functools.partial) else value
    value = value.__func__ if isinstance(value, MethodType) else inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, FunctionType) else None


def _same_program(value: Any, function: Any) -> bool:
    """Whether to look into a function: those of the agent's own package, not of libraries."""
    target = _plain_function(value)
    root = _plain_function(function)
    if target is None or root is None:
        return False
    return target.__module__.partition(".")[0] == root.__module__.partition(".")[0]

"""What the documentation names, and what the sources have: both read as data, so that they can be compared."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
SOURCES = [REPOSITORY / "libs" / name / "src" for name in ("statemgr", "towpath", "native")]

GAP = "…"
"""What stands in the documentation for a part of a log line that differs from time to time."""

_FORMAT = re.compile(r"%(?:\.\d+)?[sdrfgi]")
_ATTENTION = {"warning", "error", "exception", "critical"}


def operations() -> str:
    return (REPOSITORY / "docs" / "operations.md").read_text()


def section(text: str, title: str) -> str:
    """The part of a page below a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(title)}$", text, re.MULTILINE)
    assert found, f"there is no heading {title!r}"
    rest = text[found.end() :]
    end = re.search(r"^#+ ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def first_column(text: str) -> list[str]:
    """What stands in backticks in the first column of all tables."""
    rows = re.findall(r"^\| (.+?) \|", text, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def log_lines() -> Iterator[tuple[str, str]]:
    """Text of every log call that asks for attention, and where it is; parts that differ are :data:`GAP`."""
    for path in (path for source in SOURCES for path in sorted(source.rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                if isinstance(owner, ast.Name) and owner.id == "log" and node.func.attr in _ATTENTION:
                    yield _text(node.args[0], path), f"{path.relative_to(REPOSITORY)}:{node.lineno}"


def _text(node: ast.expr, path: Path, *, inside: bool = False) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return _FORMAT.sub(GAP, text)
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, path) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left, path, inside=True) + _text(right, path, inside=True)
        case ast.FormattedValue() | ast.Call():
            return GAP
        case ast.Name() if inside:
            return GAP
    raise AssertionError(f"{path}:{node.lineno}: nobody can document a log line whose text is {ast.unparse(node)}")

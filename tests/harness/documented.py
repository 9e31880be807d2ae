"""Commands of the documentation, so that tests run what is written there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def blocks(document: str) -> list[list[str]]:
    """Shell blocks of a document: their commands, without comments and empty lines."""
    found = re.findall(r"^```sh\n(.*?)^```", (ROOT / document).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [[command for line in block.splitlines() if (command := re.sub(r"\s+#.*", "", line))] for block in found]


def commands(document: str, beginning: str) -> list[str]:
    """Commands of a document that begin so, each once."""
    every = [command for block in blocks(document) for command in block]
    return list(dict.fromkeys(command for command in every if command.startswith(beginning)))


def command(document: str, beginning: str) -> str:
    """The one command that begins so."""
    (found,) = commands(document, beginning)
    return found

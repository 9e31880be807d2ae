"""Client properties from a file, so that secrets never stand on a command line."""

from __future__ import annotations

from pathlib import Path


def read_properties(path: Path | None) -> dict[str, str]:
    """The ``key=value`` lines of a file; blank lines and those that begin with ``#`` are passed over.

    Raises:
        ValueError: the file can't be read, or a line has no ``=``; one line that says which.
    """
    if path is None:
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"properties file {path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"properties file {path} can't be read: it is not text in UTF-8") from error
    properties: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        key, separator, value = text.partition("=")
        if not separator:
            raise ValueError(f"{path}, line {number}: expected key=value")
        properties[key.strip()] = value.strip()
    return properties

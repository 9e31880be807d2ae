"""Writes the plans of a package's queries, for processes that are not to load them: write_plans.py PACKAGE DIRECTORY.

Each becomes ``<module>.json``, as ``towpath plan <module> --format json`` prints it.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

from towpath.query import load_query, render_json
from towpath.query.loading import ATTRIBUTES


def main(package: str, directory: str) -> None:
    """Write them all; modules of the package that hold no query are passed over."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for found in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        module = importlib.import_module(found.name)
        if any(hasattr(module, name) for name in ATTRIBUTES):
            (target / f"{found.name}.json").write_text(render_json(load_query(found.name)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

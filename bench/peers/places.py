"""Where things are: programs in the repository, what is installed and written under ``build``."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "bench" / "peers"
INSTALLED = ROOT / "build" / "peers"
WRITTEN = ROOT / "build" / "bench" / "peers"
PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "docs" / "images"

"""Writes page and pictures beside the results and, if asked to, into the documentation."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.peers.page import page
from bench.peers.places import IMAGES, PAGE, WRITTEN
from bench.peers.plots import pictures
from bench.peers.results import Summary
from bench.peers.systems import all_systems


def report(
    summaries: Sequence[Summary], targets: Sequence[Mapping[str, Any]], machine: Mapping[str, Any], *, write_docs: bool
) -> None:
    """Write everything; files of a former call are replaced."""
    told = {"machine": machine, "targets": targets, "subjects": [asdict(each) for each in summaries]}
    (WRITTEN / "summary.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    titles = {system.name: system.title for system in all_systems()}
    drawn = pictures(summaries, WRITTEN)
    beside = {title: path.name for title, path in drawn.items()}
    (WRITTEN / "benchmarks.md").write_text(page(summaries, targets, machine, titles, beside), encoding="utf-8")
    if write_docs:
        IMAGES.mkdir(exist_ok=True)
        for path in drawn.values():
            shutil.copy(path, IMAGES / path.name)
        there = {title: f"{IMAGES.name}/{path.name}" for title, path in drawn.items()}
        PAGE.write_text(page(summaries, targets, machine, titles, there), encoding="utf-8")

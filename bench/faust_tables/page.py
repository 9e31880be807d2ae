"""The table of a run, as Markdown and as a page."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"

CHANGES = (("one_to_two", "1 → 2"), ("two_to_one", "2 → 1"), ("kill_9", "`kill -9`"))

STOCK, OURS = "rocksdb", "statemgr"

Row = Sequence[str]


def table(results: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Heading and rows: what was measured, and both stores with each number of keys."""
    columns = [(each["keys"], store) for each in results for store in (STOCK, OURS) if store in each]
    heading = ["", *(f"{store}, {keys:,} keys" for keys, store in columns)]
    found = {(each["keys"], store): each[store] for each in results for store in (STOCK, OURS) if store in each}

    def row(name: str, *path: str, unit: str = "") -> Row:
        return [name, *(_shown(_at(found[column], path), unit) for column in columns)]

    rows: list[Row] = [heading]
    for key, words in CHANGES:
        rows.append(row(f"{words}: first event of a moved partition, ms", key, "first_ms"))
        rows.append(row(f"{words}: all moved partitions have events, ms", key, "all_ms"))
        rows.append(row(f"{words}: longest gap of any partition, ms", key, "gap_ms"))
    rows.append(row("of that until Kafka missed the killed worker, ms", "kill_9", "missed_ms"))
    rows.append(row("1 → 2: all state is there, s", "all_state_s"))
    rows.append(row("first start, from the changelog, s", "first_recovery_s"))
    rows.append(row("one worker, as fast as it can, events/s", "events_per_s"))
    rows.append(row("newcomer: loop delay, 99th percentile, ms", "newcomer", "loop_delay_p99_ms"))
    rows.append(row("newcomer: loop delay, worst, ms", "newcomer", "loop_delay_max_ms"))
    rows.append(row("newcomer: memory, MiB", "newcomer", "rss_mib"))
    rows.append(row("newcomer: reads that waited for state", "newcomer", "waits"))
    rows.append(row("events lost", "judged", "lost"))
    rows.append(row("events that met a table without earlier ones", "judged", "lacking"))
    rows.append(row("events processed again: uncommitted ones, by Faust", "judged", "again"))
    rows.append(row("table as it must be", "judged", "state_is_oracle"))
    return rows


def markdown(rows: Sequence[Row]) -> str:
    """The table in Markdown."""
    lines = ["| " + " | ".join(each) + " |" for each in rows]
    lines.insert(1, "|---|" + "---:|" * (len(rows[0]) - 1))
    return "\n".join(lines)


def write_page(path: Path, rows: Sequence[Row], caption: str) -> None:
    """A page of its own."""

    def cells(each: Row, tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in each) + "</tr>"

    body = "\n".join([cells(rows[0], "th"), *(cells(each, "td") for each in rows[1:])])
    style = (
        "body{font:15px sans-serif;margin:2em}td,th{padding:.3em .8em;text-align:right;border-bottom:1px solid #ddd}"
    )
    style += "td:first-child{text-align:left}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"<!doctype html><meta charset=utf-8><title>Faust: what a rebalance costs</title><style>{style}</style>"
        f"<h1>Faust: what a rebalance costs</h1><p>{html.escape(caption)}</p><table>{body}</table>\n",
        encoding="utf-8",
    )


def write_docs(path: Path, rows: Sequence[Row], caption: str) -> None:
    """Between the marks of a document."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{caption}\n\n{markdown(rows)}\n{END}{after}", encoding="utf-8")


def _at(figures: Any, path: Sequence[str]) -> Any:
    for name in path:
        figures = figures.get(name) if isinstance(figures, Mapping) else None
    return figures


def _shown(value: Any, unit: str) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}{unit}" if value >= 100 else f"{value:,.1f}{unit}"
    return f"{value:,}{unit}"

"""How fast a system works off a topic that is full: events per second, and per processor second."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from bench.peers.launch import Launched
from bench.peers.model import COUNTED, Run, RunFailedError, Say, System
from bench.peers.outputs import Outputs, asked_for, differences
from bench.peers.progress import START_SHARE, Window, newly_covered, share_at, window
from bench.peers.sampling import Memory, Sampler
from bench.peers.topics import Reader, Topics
from bench.peers.tree import ProcessTree

SETTLED_S = 1.5
"""Nothing new for so long: time to see whether everything is there."""

LOOK_S = 0.25
_MIB = 1 << 20
_THIRD = 3
_FLAT = 1.05
"""Memory counts as flat if its highest value in the last third is at most this much above that in the second."""


@dataclass(frozen=True)
class Drained:
    """Figures of a drain.

    Attributes:
        events: in the source topic.
        events_per_s: wall, within the window.
        events_per_cpu_s: of the whole process tree, within the window.
        broker_cpu_share: processor seconds of the broker for one of the system.
        window_s: length of the window.
        ahead: share of the events that were half done when it began; see :func:`bench.peers.progress.window`.
        whole_s: from the start of the processes to the last output.
        whole_events_per_cpu_s: the same over the whole run, start and warm-up included.
        outputs_per_event: records in the sink.
        changelog_per_event: records in the changelog topics; None: it has none.
        peak_rss_mb: highest memory of the process tree.
        peak_rss_largest_mb: of its largest process.
        rss_flat: whether memory has stopped growing by the last third of the run.
    """

    events: int
    events_per_s: float
    events_per_cpu_s: float
    broker_cpu_share: float
    window_s: float
    ahead: float
    whole_s: float
    whole_events_per_cpu_s: float
    outputs_per_event: float
    changelog_per_event: float | None
    peak_rss_mb: float
    peak_rss_largest_mb: float
    rss_flat: bool

    def as_figures(self) -> dict[str, Any]:
        """For the results."""
        return asdict(self)


@dataclass(frozen=True)
class Bench:
    """What runs share.

    Attributes:
        topics: of the broker.
        broker: its processes.
        limit_s: longest run.
        say: where progress is told.
    """

    topics: Topics
    broker: ProcessTree
    limit_s: float
    say: Say


def drain(bench: Bench, system: System, run: Run, expected: pl.DataFrame) -> Drained:
    """Run a system on a full topic until everything is visible, and compare.

    Raises:
        RunFailedError: it ended, took too long, or its outputs are wrong.
    """
    topics, partitions = bench.topics, run.job.partitions
    topics.create(run.sink, partitions)
    group = system.group(run)
    with Reader(topics.bootstrap, run.sink, partitions) as reader:
        outputs = Outputs(run.job.program, reader)
        begin_s = time.monotonic()
        with Launched(run, system.command(run)) as launched:
            sampler = Sampler(
                launched.tree,
                bench.broker,
                lambda: topics.committed_ends(run.sink, partitions),
                lambda: topics.consumed(group, run.source, partitions) if group else 0,
            )
            with sampler:
                _await_complete(bench, launched, sampler, outputs, expected)
        outputs.read_until(topics.committed_ends(run.sink, partitions))
    wrong = differences(run.job.program, outputs.rows, expected)
    if wrong:
        raise RunFailedError(f"its outputs are wrong: {wrong}")
    found = _window(sampler, asked_for(outputs.rows, expected), run)
    return _figures(found, sampler, outputs.rows, run.events, _changelog_records(topics, run), begin_s)


def _await_complete(
    bench: Bench, launched: Launched, sampler: Sampler, outputs: Outputs, expected: pl.DataFrame
) -> None:
    deadline = time.monotonic() + bench.limit_s
    looked_at: tuple[int, ...] = ()
    while True:
        time.sleep(LOOK_S)
        launched.require_alive()
        if sampler.idle_s() >= SETTLED_S and (ends := sampler.samples[-1].ends) != looked_at:
            looked_at = ends
            outputs.read_until(ends)
            if outputs.complete(expected):
                return
        if time.monotonic() > deadline:
            partitions = bench.topics.partition_count(outputs.topic)
            outputs.read_until(bench.topics.committed_ends(outputs.topic, partitions))
            raise RunFailedError(
                f"not done after {bench.limit_s:.0f} s: {outputs.rows.height:,} outputs; {launched.last_lines()}"
            )


def _window(sampler: Sampler, outputs: pl.DataFrame, run: Run) -> Window:
    keys = COUNTED.get(run.job.program)
    weights = newly_covered(outputs, keys) if keys else pl.repeat(1, outputs.height, eager=True)
    shares = share_at(sampler.samples, outputs, weights, float(weights.sum()))
    found = window(sampler.samples, shares, run.events)
    if found is None:
        raise RunFailedError(f"nearly everything beyond {START_SHARE:.0%} became visible at once: no window")
    return found


def _changelog_records(topics: Topics, run: Run) -> int | None:
    names = [name for name in topics.names(run.app) if "changelog" in name]
    return sum(topics.records(name) for name in names) if names else None


def _figures(
    found: Window, sampler: Sampler, outputs: pl.DataFrame, events: int, changelog: int | None, begin_s: float
) -> Drained:
    return Drained(
        events=events,
        events_per_s=found.events / found.seconds,
        events_per_cpu_s=found.events / found.cpu_s,
        broker_cpu_share=found.broker_cpu_s / found.cpu_s,
        window_s=found.seconds,
        ahead=found.ahead,
        whole_s=found.end.at_s - begin_s,
        whole_events_per_cpu_s=events / found.end.cpu_s,
        outputs_per_event=outputs.height / events,
        changelog_per_event=None if changelog is None else changelog / events,
        peak_rss_mb=max(each.tree for each in sampler.memory) / _MIB,
        peak_rss_largest_mb=max(each.largest for each in sampler.memory) / _MIB,
        rss_flat=is_flat([each for each in sampler.memory if each.at_s <= found.end.at_s]),
    )


def is_flat(memory: list[Memory]) -> bool:
    """Whether memory has stopped growing by the last third."""
    third = len(memory) // _THIRD
    if not third:
        return False
    middle, last = memory[third : 2 * third], memory[2 * third :]
    return max(each.tree for each in last) <= _FLAT * max(each.tree for each in middle)

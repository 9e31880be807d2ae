"""The case of :mod:`tests.simulation.application`: rows are counted by key, deleted, and judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from statemgr.types import TopicPartition
from tests.simulation.application import OUTPUT, Counting, entries_of, stage_plan
from tests.simulation.case import Committed
from tests.simulation.invariants import TaskHistory
from tests.simulation.oracle import compute, differences
from tests.simulation.rows import Record, decode_output, encode_record
from towpath.query.plan import StagePlan
from towpath.stage.processor import MakeProcessor


@dataclass(frozen=True)
class Counts:
    """See :class:`tests.simulation.case.Case`."""

    outputs: ClassVar[tuple[str, ...]] = (OUTPUT,)
    make_processor: ClassVar[MakeProcessor] = Counting

    def plan(self, partitions: int) -> StagePlan:
        """See the protocol."""
        return stage_plan(partitions)

    def encode(self, number: int, record: Record) -> Sequence[bytes]:
        """See the protocol."""
        return [encode_record(record)]

    def entry(self, number: int, history: TaskHistory) -> bytes:
        """See the protocol."""
        return f"k{number}".encode()

    def order(self) -> InputOrder:
        """See the protocol."""
        return InputOrder()

    def differences(self, committed: Committed) -> Iterator[str]:
        """Outputs and state against the batch computation over the input (I2, I3)."""
        for partition in range(committed.partitions):
            expected = compute(committed.input(partition))
            outputs = map(decode_output, committed.output(OUTPUT, partition))
            yield from differences(partition, expected, list(outputs))
            entries = (entry for key, count in expected.counts.items() for entry in entries_of(key, count).items())
            yield from committed.state_differences(partition, dict(entries))


class InputOrder:
    """Each key's outputs follow the order of the input, so none is there twice (I2, I3)."""

    def __init__(self) -> None:
        self._newest: dict[tuple[int, str], tuple[int, int]] = {}

    def complaint(self, at: TopicPartition, value: bytes) -> str | None:
        """See :class:`tests.simulation.case.Order`."""
        output = decode_output(value)
        if output.is_mark:
            return None
        position, key = (output.offset, output.row), (at.partition, output.key)
        before = self._newest.get(key)
        if before is not None and before >= position:
            return f"has {output} after {before} (I2, I3)"
        self._newest[key] = position
        return None

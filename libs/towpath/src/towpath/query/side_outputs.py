"""Topics that a step writes besides what it gives to the next one: rows that came too late for their window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from towpath.operators.json_encode import sink_schema
from towpath.query.check import Schema, check_key
from towpath.query.errors import QueryError
from towpath.query.names import check_topic
from towpath.query.plan import Edge, Format, OutputPlan


@dataclass(frozen=True)
class SideOutput:
    """A topic that one step writes: JSON, as a sink does.

    Attributes:
        topic: name in Kafka.
        keys: columns whose text is the record's key; without, rows go round robin.
        partitions: partition count.
    """

    topic: str
    keys: tuple[str, ...]
    partitions: int

    def plan(self) -> OutputPlan:
        """The output of the stage."""
        edge = Edge.HASH if self.keys else Edge.RANDOM
        return OutputPlan(self.topic, Format.JSON, edge, self.keys, self.partitions, inner=False, default=False)


@runtime_checkable
class Siding(Protocol):
    """A step with such topics."""

    @property
    def side_outputs(self) -> tuple[SideOutput, ...]:
        """Topics that it writes."""
        ...


def side_outputs(step: object) -> tuple[SideOutput, ...]:
    """Topics that a step writes; most have none."""
    return step.side_outputs if isinstance(step, Siding) else ()


class LateTo(NamedTuple):
    """Where late rows are to go; None stands for what the query says elsewhere."""

    topic: str
    key: tuple[str, ...] | None
    partitions: int | None

    def output(self, keys: tuple[str, ...], schema: Schema, partitions: int, place: str) -> SideOutput:
        """The output of a step.

        Args:
            keys: of its stream.
            schema: of the rows that are written.
            partitions: of topics for which nothing else is said.
            place: what messages call the step.

        Raises:
            QueryError: the topic's name, the key or a column can't be.
        """
        label = f"{place}, late rows to {self.topic!r}"
        check_topic(self.topic)
        chosen = keys if self.key is None else self.key
        if chosen:
            check_key(chosen, schema, label)
        try:
            sink_schema(schema)
        except ValueError as error:
            raise QueryError(f"{label}: {error}") from error
        return SideOutput(self.topic, chosen, self.partitions or partitions)

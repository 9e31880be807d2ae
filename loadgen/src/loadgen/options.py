"""The options of the data source `nexmark`, read once and checked with an error that names the option."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from loadgen.errors import OptionError

__all__ = ["KEYS", "KeyMode", "SourceOptions", "parse_count", "parse_duration_ms"]

KeyMode = Literal["none", "auction", "bidder"]
KEYS: tuple[KeyMode, ...] = ("none", "auction", "bidder")

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_UNIT_COUNT = {"": 1, "k": 1000, "m": 1_000_000}


def parse_duration_ms(text: str, option: str = "duration") -> int:
    """Reads a length of time such as `500ms`, `60s`, `60` (seconds), `2m` or `1h`.

    Args:
        text: The length of time.
        option: Name for the error.

    Returns:
        Milliseconds, at least 1.

    Raises:
        OptionError: The text is no length of time, or it is not positive.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h)?\s*", text)
    millis = round(float(found[1]) * _UNIT_MS[found[2] or "s"]) if found else 0
    if millis < 1:
        raise OptionError(f"{option}={text!r} is no length of time; write for example 60s, 500ms, 2m or 1h")
    return millis


def parse_count(text: str, option: str) -> int:
    """Reads a number of events such as `250000`, `250k` or `2M`.

    Args:
        text: The number.
        option: Name for the error.

    Returns:
        The number, at least 1.

    Raises:
        OptionError: The text is no positive number.
    """
    found = re.fullmatch(r"\s*(\d+(?:[_\d]*\d)?(?:\.\d+)?)\s*([kKmM]?)\s*", text)
    count = round(float(found[1].replace("_", "")) * _UNIT_COUNT[found[2].lower()]) if found else 0
    if count < 1:
        raise OptionError(f"{option}={text!r} is no number of events; write for example 250000, 250k or 2M")
    return count


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What the data source generates, and how it is cut and paced.

    Attributes:
        seed: Seed of the events; same seed, same events.
        profile: Rate profile, for example `constant(10000)`; see `nexmark.Profile`.
        events: Number of events of the whole load; None: as many as the duration says.
        duration_ms: Length of the load in schedule time; None: as the number of events says.
        start: Number of the first event.
        readers: Spark tasks that split the sequence: task g takes the events with number ≡ g (mod readers).
        key: Field whose decimal text is the record's key; `none`: no key.
        topic_partitions: With it the column `partition` is k mod this number, else null.
        t0_ms: Wall clock of the schedule's time zero; None: fixed when the stream starts. In a batch read it
            stamps the events (None: they are not stamped).
        stamp_now: Batch read only: stamp each chunk with the wall clock at which it is generated.
        lead_ms: Stream only: how long after planning the first micro-batch time zero is; the Python workers
            start in this time.
        span_ms: Stream only: schedule time of one micro-batch.
        tick_ms: Stream only: rows that become due within one tick leave together.
        chunk_rows: Rows per Arrow batch of a batch read.
        generator: Further settings of `nexmark.GeneratorConfig`, as text.
    """

    seed: int = 42
    profile: str = "constant(10000)"
    events: int | None = None
    duration_ms: int | None = None
    start: int = 0
    readers: int = 1
    key: KeyMode = "none"
    topic_partitions: int | None = None
    t0_ms: int | None = None
    stamp_now: bool = False
    lead_ms: int = 1500
    span_ms: int = 30_000
    tick_ms: float = 5.0
    chunk_rows: int = 8192
    generator: Mapping[str, str] = field(default_factory=dict)

    def to_options(self) -> dict[str, str]:
        """The same as options of `spark.read` or `spark.readStream`."""
        named = {
            "seed": self.seed,
            "profile": self.profile,
            "events": self.events,
            "duration": None if self.duration_ms is None else f"{self.duration_ms}ms",
            "start": self.start,
            "readers": self.readers,
            "key": self.key,
            "topicPartitions": self.topic_partitions,
            "t0Ms": self.t0_ms,
            "stampNow": str(self.stamp_now).lower(),
            "leadMs": self.lead_ms,
            "spanMs": self.span_ms,
            "tickMs": self.tick_ms,
            "chunkRows": self.chunk_rows,
        }
        extra = {f"generator.{name}": value for name, value in self.generator.items()}
        return {name: str(value) for name, value in named.items() if value is not None} | extra

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> SourceOptions:
        """Reads the options of a Spark reader; their names are not case-sensitive.

        Args:
            options: Name → text. Unknown names are refused, since a misspelt one would silently be the default.

        Returns:
            The options.

        Raises:
            OptionError: A name is unknown, or a value is not of its kind.
        """
        given = {name.lower(): value for name, value in options.items()}
        generator = {
            name.removeprefix("generator."): given.pop(name) for name in list(given) if name.startswith("generator.")
        }
        unknown = sorted(set(given) - set(_READERS) - {"path"})
        if unknown:
            raise OptionError(f"unknown option {', '.join(unknown)}; known are {', '.join(sorted(_READERS))}")
        values = {_READERS[name][0]: _READERS[name][1](given[name], name) for name in given if name in _READERS}
        return cls(generator=generator, **values)


def _integer(minimum: int) -> Callable[[str, str], int]:
    def read(text: str, option: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise OptionError(f"{option}={text!r} must be a whole number, at least {minimum}")
        return value

    return read


def _positive(text: str, option: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise OptionError(f"{option}={text!r} must be a positive number of milliseconds")
    return value


def _key(text: str, option: str) -> KeyMode:
    if text not in KEYS:
        raise OptionError(f"{option}={text!r} must be one of {', '.join(KEYS)}")
    return text


def _flag(text: str, option: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"{option}={text!r} must be true or false")
    return text.lower() == "true"


def _text(text: str, option: str) -> str:
    if not text.strip():
        raise OptionError(f"{option} is empty")
    return text


_READERS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "seed": ("seed", _integer(0)),
    "profile": ("profile", _text),
    "events": ("events", parse_count),
    "duration": ("duration_ms", parse_duration_ms),
    "start": ("start", _integer(0)),
    "readers": ("readers", _integer(1)),
    "key": ("key", _key),
    "topicpartitions": ("topic_partitions", _integer(1)),
    "t0ms": ("t0_ms", _integer(0)),
    "stampnow": ("stamp_now", _flag),
    "leadms": ("lead_ms", _integer(0)),
    "spanms": ("span_ms", _integer(100)),
    "tickms": ("tick_ms", _positive),
    "chunkrows": ("chunk_rows", _integer(1)),
}

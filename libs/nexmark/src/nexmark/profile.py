"""Rates over time: which event number belongs to which moment.

A profile is a list of segments ``(duration, rate)``. Segment i holds ``n_i = floor(D_i * R_i / 1000)``
events, and event number e in it lies at ``sum of earlier D + floor((e - sum of earlier n) * 1000 / R_i)``
milliseconds after the start. After the last segment the list repeats, or the last rate goes on forever.
The same arithmetic serves event time (number = event id) and wall-clock pacing (number = emission index).
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from nexmark.arrays import IntArray
from nexmark.errors import NexmarkError

MAX_RATE = 1_000_000_000
"""Events per second. ``event number * 1_000_000`` (the microsecond arithmetic) must stay within 63 bits."""

SINE_STEPS = 10
"""Steps of equal length that approximate one period of a sine."""

RESCALE_SCALE_OUT_S = 190
"""Seconds after the start at which a ``rescale`` run scales out: 120 s warm-up + 60 s baseline + 10 s."""

_MS_TOLERANCE = 1e-6
"""Decimal seconds are rarely exact in binary; a real fraction of a millisecond is larger than this."""

_FORMS = (
    "constant(rate)",
    "step(first, second, at_s)",
    "sine(first, second, period_s)",
    "square(first, second, period_s)",
    "spike(base, peak, at_s, for_s)",
    "rescale(before, after)",
)
_CALL = re.compile(r"\s*([a-z]+)\s*\(([^()]*)\)\s*")


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of constant rate.

    Attributes:
        duration_ms: Length in milliseconds, at least 1.
        rate: Events per second, a whole number from 1 to ``MAX_RATE``.
    """

    duration_ms: int
    rate: int

    def __post_init__(self) -> None:
        if self.duration_ms < 1:
            raise NexmarkError(f"a segment of {self.duration_ms} ms has no length: give a duration of at least 1 ms")
        if not 1 <= self.rate <= MAX_RATE:
            raise NexmarkError(
                f"a rate of {self.rate} events/s is out of range: give a whole number from 1 to {MAX_RATE}"
            )

    @property
    def events(self) -> int:
        """Number of events that fall into the segment."""
        return self.duration_ms * self.rate // 1000


@dataclass(frozen=True)
class Profile:
    """A piecewise constant rate.

    Attributes:
        segments: At least one segment, in order.
        repeat: Whether the list starts again after its end; otherwise the last rate continues forever.
        label: The text that ``parse`` accepts, for records of a run; ``custom`` for hand-made profiles.
    """

    segments: tuple[Segment, ...]
    repeat: bool = False
    label: str = "custom"

    def __post_init__(self) -> None:
        if not self.segments:
            raise NexmarkError("a profile without segments has no rate: give at least one segment")
        if self.repeat and self._events[-1] == 0:
            raise NexmarkError("a repeating profile that holds no event never advances: raise a rate or a duration")

    def __str__(self) -> str:
        return self.label

    @classmethod
    def constant(cls, rate: int) -> Self:
        """The same rate forever."""
        return cls((Segment(1000, rate),), label=f"constant({rate})")

    @classmethod
    def step(cls, first: int, second: int, at_s: float) -> Self:
        """``first`` until ``at_s`` seconds, then ``second`` forever."""
        segments = (Segment(_milliseconds(at_s), first), Segment(1000, second))
        return cls(segments, label=f"step({first},{second},{at_s:.12g})")

    @classmethod
    def square(cls, first: int, second: int, period_s: float) -> Self:
        """Half a period at ``first``, half at ``second``, repeating."""
        half = _milliseconds(period_s / 2)
        return cls(
            (Segment(half, first), Segment(half, second)),
            repeat=True,
            label=f"square({first},{second},{period_s:.12g})",
        )

    @classmethod
    def sine(cls, first: int, second: int, period_s: float) -> Self:
        """Ten equal steps a period from ``first`` over ``second`` and back, repeating.

        Step i has rate ``round(mid + amplitude * cos(2 pi i / 10))``.
        """
        mid, amplitude = (first + second) / 2, (first - second) / 2
        step_ms = _milliseconds(period_s / SINE_STEPS)
        rates = [math.floor(mid + amplitude * math.cos(2 * math.pi * i / SINE_STEPS) + 0.5) for i in range(SINE_STEPS)]
        segments = tuple(Segment(step_ms, rate) for rate in rates)
        return cls(segments, repeat=True, label=f"sine({first},{second},{period_s:.12g})")

    @classmethod
    def spike(cls, base: int, peak: int, at_s: float, for_s: float) -> Self:
        """``base``, except for ``for_s`` seconds of ``peak`` from ``at_s`` on."""
        segments = (Segment(_milliseconds(at_s), base), Segment(_milliseconds(for_s), peak))
        label = f"spike({base},{peak},{at_s:.12g},{for_s:.12g})"
        return cls((*segments, Segment(1000, base)), label=label)

    @classmethod
    def rescale(cls, before: int, after: int) -> Self:
        """The load of a rescaling run.

        120 s and 60 s at ``before`` (build state; measure the baseline), 120 s at ``after`` with the
        scale-out at ``RESCALE_SCALE_OUT_S``, then ``before`` again.
        """
        segments = (
            Segment(120_000, before),
            Segment(60_000, before),
            Segment(120_000, after),
            Segment(60_000, before),
        )
        return cls(segments, label=f"rescale({before},{after})")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads ``"constant(10000)"``, ``"step(2000,5000,60)"`` and so on.

        Raises:
            NexmarkError: The text is none of the valid forms, which the message lists.
        """
        match = _CALL.fullmatch(text)
        form = next((f for f in _FORMS if match and f.startswith(match[1] + "(")), None)
        if match is None or form is None:
            raise _unreadable(text)
        arguments = [part.strip() for part in match[2].split(",")]
        names = form[form.index("(") + 1 : -1].split(", ")
        if len(arguments) != len(names):
            raise _unreadable(text)
        try:
            numbers = [float(a) if name.endswith("_s") else int(a) for a, name in zip(arguments, names, strict=True)]
        except ValueError:
            raise _unreadable(text) from None
        make: Callable[..., Self] = getattr(cls, match[1])
        return make(*numbers)

    def offsets_ms(self, numbers: IntArray) -> IntArray:
        """Milliseconds from the start to each event number (int64, each ≥ 0)."""
        return self._offsets(numbers, 1000)

    def offsets_us(self, numbers: IntArray) -> IntArray:
        """Microseconds from the start to each event number: the finer form, for pacing."""
        return self._offsets(numbers, 1_000_000)

    def count_until(self, ms: int) -> int:
        """Number of events that lie before ``ms`` milliseconds after the start."""
        cycles = 0
        if self.repeat:
            cycles, ms = divmod(max(ms, 0), self._starts_ms[-1])
        last = len(self.segments) - 1
        count = cycles * self._events[-1]
        for i, segment in enumerate(self.segments):
            inside = max(0, -(-(ms - self._starts_ms[i]) * segment.rate // 1000))
            count += inside if i == last and not self.repeat else min(inside, segment.events)
        return count

    @cached_property
    def _starts_ms(self) -> list[int]:
        """Start of each segment, and the end of the last."""
        return [0, *np.cumsum([s.duration_ms for s in self.segments]).tolist()]

    @cached_property
    def _events(self) -> list[int]:
        """Events before each segment, and before the end of the last."""
        return [0, *np.cumsum([s.events for s in self.segments]).tolist()]

    def _offsets(self, numbers: IntArray, units_per_s: int) -> IntArray:
        """Offsets in units of ``1 / units_per_s`` seconds."""
        units_per_ms = units_per_s // 1000
        if not self.repeat:
            return self._offsets_in_cycle(numbers, units_per_s)
        cycle = numbers // self._events[-1]
        offsets = self._offsets_in_cycle(numbers - cycle * self._events[-1], units_per_s)
        offsets += cycle * (self._starts_ms[-1] * units_per_ms)
        return offsets

    def _offsets_in_cycle(self, numbers: IntArray, units_per_s: int) -> IntArray:
        if numbers.size == 0:
            return numbers.copy()
        first, last = self._segment_of(int(numbers.min())), self._segment_of(int(numbers.max()))
        if first == last:
            return self._offsets_in_segment(numbers, first, units_per_s)
        result = np.empty_like(numbers)
        segment = np.searchsorted(self._events[1:-1], numbers, side="right")
        for i in range(first, last + 1):
            rows = np.flatnonzero(segment == i)
            result[rows] = self._offsets_in_segment(numbers[rows], i, units_per_s)
        return result

    def _offsets_in_segment(self, numbers: IntArray, segment: int, units_per_s: int) -> IntArray:
        offsets = numbers - self._events[segment]
        offsets *= units_per_s
        offsets //= self.segments[segment].rate
        offsets += self._starts_ms[segment] * (units_per_s // 1000)
        return offsets

    def _segment_of(self, number: int) -> int:
        return int(np.searchsorted(self._events[1:-1], number, side="right"))


def _milliseconds(seconds: float) -> int:
    ms = seconds * 1000
    if not math.isfinite(ms) or abs(ms - round(ms)) > _MS_TOLERANCE:
        raise NexmarkError(f"{seconds:g} s is no duration: give seconds that make a whole number of milliseconds")
    return round(ms)


def _unreadable(text: str) -> NexmarkError:
    forms = ", ".join(_FORMS)
    return NexmarkError(
        f"cannot read the profile {text!r}; use one of: {forms}. "
        "Rates are whole events per second; names that end in _s are seconds"
    )

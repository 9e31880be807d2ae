"""Events of cards with planted frauds, always the same ones for a seed, and what must be found in them.

``python -m examples.fraud.transactions`` writes them to the local broker; ``--expected`` prints the alerts instead,
found by a search in plain Python over all events of a card.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from examples.fraud.query import (
    CHARGE_ABOVE_CENTS,
    LAG_MS,
    PROBE_BELOW_CENTS,
    PROBES,
    TOPIC,
    WITHIN_MS,
)
from examples.sending import Sent, send

START_MS = 1_760_000_000_000
SPAN_MS = 600_000
END_MS = START_MS + SPAN_MS + 10 * WITHIN_MS
"""Later than the end of anything that begins in that time."""

Event = dict[str, Any]
Part = tuple[int, str, int]
"""Of a story: ms since its beginning, kind and cents."""

_PROBED: tuple[Part, ...] = ((0, "payment", 120), (4_000, "payment", 80), (9_500, "payment", 310))

STORIES: dict[str, tuple[Part, ...]] = {
    "fraud": (*_PROBED, (21_000, "payment", 72_000)),
    "confirmed": (*_PROBED, (21_000, "payment", 72_000), (35_000, "confirmed", 0)),
    "cleared": (*_PROBED, (15_000, "cleared", 0), (21_000, "payment", 72_000)),
    "slow": (*_PROBED, (WITHIN_MS, "payment", 72_000)),
    "harmless": ((0, "payment", 120), (6_000, "payment", 90)),
}
"""What happens to a card amid its usual payments; only the first is a fraud. Card ``n`` has story ``n`` modulo five."""


def story_of(card: int) -> str:
    """Name of a card's story."""
    return list(STORIES)[card % len(STORIES)]


def events(seed: int = 1, cards: int = 60) -> list[Event]:
    """All events in the order in which they come: each at most :data:`~examples.fraud.query.LAG_MS` late."""
    chance = random.Random(seed)  # noqa: S311 - a simulation, nothing secret
    found = [event for card in range(cards) for event in _of_card(card, chance)]
    return sorted(found, key=lambda event: event["time"] + chance.randrange(LAG_MS))


def _of_card(card: int, chance: random.Random) -> Iterator[Event]:
    begin = chance.randrange(WITHIN_MS, SPAN_MS - WITHIN_MS)
    parts = [(begin + at, kind, cents + chance.randrange(50)) for at, kind, cents in STORIES[story_of(card)]]
    at = chance.randrange(30_000)
    while at < SPAN_MS:
        parts.append((at, "payment", chance.randrange(2_000, 40_000)))
        at += chance.randrange(10_000, 50_000)
    taken: set[int] = set()
    for at, kind, cents in parts:
        while at in taken:  # one moment, one event: the order of a card's events is never a matter of luck
            at += 1
        taken.add(at)
        yield {"card": card, "time": START_MS + at, "kind": kind, "cents": cents}


def records(seed: int = 1, cards: int = 60) -> Iterator[Sent]:
    """The events by their cards, and to each partition one that lets event time go to the end."""
    for event in events(seed, cards):
        yield event["card"], event
    yield None, {"card": -1, "time": END_MS, "kind": "end", "cents": 0}


class _Taken(NamedTuple):
    probes: list[Event]
    charge: Event


def expected_alerts(given: Iterable[Event]) -> list[Event]:
    """The alerts, by card and time: a search over all events of each card, which shares no code with the query."""
    by_card: dict[int, list[Event]] = {}
    for event in sorted(given, key=lambda event: int(event["time"])):
        by_card.setdefault(event["card"], []).append(event)
    return [alert for card in sorted(by_card) for alert in _alerts_of(by_card[card])]


def _alerts_of(sequence: Sequence[Event]) -> Iterator[Event]:
    passed = -1
    for at, event in enumerate(sequence):
        if at <= passed or not _is_probe(event):
            continue
        in_time = [each for each in sequence[at:] if each["time"] < event["time"] + WITHIN_MS]
        taken = _tested(in_time)
        if taken is not None:
            passed = sequence.index(taken.charge)
            yield {
                "card": event["card"],
                "match_start": event["time"],
                "match_end": event["time"] + WITHIN_MS,
                "probes": [probe["cents"] for probe in taken.probes],
                "charge": taken.charge["cents"],
                "charged_ms": taken.charge["time"],
            }


def _tested(in_time: Sequence[Event]) -> _Taken | None:
    """What makes a fraud of events that begin with a probe."""
    probes = [event for event in in_time if _is_probe(event)][:PROBES]
    if len(probes) < PROBES:
        return None
    behind = in_time[in_time.index(probes[-1]) + 1 :]
    charges = [event for event in behind if event["kind"] == "payment" and event["cents"] > CHARGE_ABOVE_CENTS]
    if not charges:
        return None
    until = behind.index(charges[0])
    cleared = any(event["kind"] == "cleared" for event in behind[:until])
    confirmed = any(event["kind"] == "confirmed" for event in behind[until:])
    return None if cleared or confirmed else _Taken(probes, charges[0])


def _is_probe(event: Event) -> bool:
    return event["kind"] == "payment" and event["cents"] < PROBE_BELOW_CENTS


def main() -> None:
    """Write the events, or print what must be found in them."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.fraud.transactions",
        description="Events of cards with planted frauds.",
        epilog="example: python -m examples.fraud.transactions --rate 200",
    )
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", help="broker (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="other events (default: %(default)s)")
    parser.add_argument("--cards", type=int, default=60, help="number of cards (default: %(default)s)")
    parser.add_argument("--partitions", type=int, default=4, help="of the topic, if it is made (default: %(default)s)")
    parser.add_argument("--rate", type=float, help="events a second (default: as fast as they go)")
    parser.add_argument("--expected", action="store_true", help="print the alerts that must be found, and send nothing")
    given = parser.parse_args()
    if given.expected:
        for alert in expected_alerts(events(given.seed, given.cards)):
            print(json.dumps(alert))  # noqa: T201 - a command
        return
    sent = send(given.bootstrap, TOPIC, records(given.seed, given.cards), partitions=given.partitions, rate=given.rate)
    print(f"{sent} events to {TOPIC}")  # noqa: T201 - a command


if __name__ == "__main__":
    main()

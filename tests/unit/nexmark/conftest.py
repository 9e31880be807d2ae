"""A second generator, written event by event with Python integers, to compare the vectorised one with."""

import math
from collections.abc import Callable
from typing import Any

import pytest

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
LETTERS = "abcdefghijklmnopqrstuvwxyz"
FIRST = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
HOT = ["Google", "Facebook", "Baidu", "Apple"]


def mix(z: int) -> int:
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & MASK
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def word(seed: int, e: int, slot: int) -> int:
    return mix((mix((seed + GAMMA * (e + 1)) & MASK) + GAMMA * (slot + 1)) & MASK)


class Reference:
    """The events of a configuration, one at a time."""

    def __init__(self, config: Any) -> None:
        self.c = config

    def below(self, e: int, slot: int, limit: int) -> int:
        return (word(self.c.seed, e, slot) >> 1) % limit

    def price(self, e: int, slot: int) -> int:
        unit = (word(self.c.seed, e, slot) >> 11) * 2.0**-53
        return math.floor(100 * math.pow(10.0, 6 * unit) + 0.5)

    def slice(self, e: int, slot: int, length: int, *, blanks: bool = False) -> str:
        offset = self.below(e, slot, (1 << 20) - length)
        characters = []
        for i in range(offset, offset + length):
            if blanks:
                blank = self.below(i, 64, 13) == 0
                characters.append(" " if blank else LETTERS[self.below(i, 65, 26)])
            else:
                characters.append(LETTERS[self.below(i, 66, 26)])
        return "".join(characters)

    def extra(self, e: int, target: int, size: int) -> str:
        gap = target - size
        spread = (2 * gap + 5) // 10
        return self.slice(e, 15, gap - spread + self.below(e, 14, 2 * spread))

    def url(self, i: int) -> str:
        path = []
        for j in range(3):
            directory = ""
            for c in range(3 + self.below(i, 70 + j, 2)):
                special = self.below(i, 80 + 8 * j + c, 13) == 0
                directory += "_" if special else LETTERS[self.below(i, 110 + 8 * j + c, 26)]
            path.append(directory)
        url = f"https://www.nexmark.com/{'/'.join(path)}/item.htm?query=1"
        if i < 10_000 and self.below(i, 79, 10) > 0:
            value = int(f"{i:032b}"[::-1], 2)
            url += f"&channel_id={abs(value - (1 << 32) if value >> 31 else value)}"
        return url

    def time(self, e: int) -> int:
        segments, cycle_ms, cycle_events = self.c.profile.segments, 0, 0
        for s in segments:
            cycle_ms += s.duration_ms
            cycle_events += s.duration_ms * s.rate // 1000
        offset = 0
        if self.c.profile.repeat:
            offset = e // cycle_events * cycle_ms
            e %= cycle_events
        for s in segments[:-1]:
            held = s.duration_ms * s.rate // 1000
            if e < held:
                break
            e -= held
            offset += s.duration_ms
        else:
            s = segments[-1]
        return self.c.base_time_ms + offset + e * 1000 // s.rate

    def person_of(self, e: int, ratio: int, slot: int, beside: int) -> int:
        newest = e // 50
        if self.below(e, slot, ratio) > 0:
            return 1000 + newest // self.c.hot_batch * self.c.hot_batch + beside
        active = min(newest + 1, self.c.active_people)
        return 1000 + newest + 1 - active + self.below(e, slot + 1, active + 10)

    def event(self, k: int) -> dict[str, Any]:
        """The event at emission index ``k``, its keys in the order of its JSON form."""
        n = self.c.out_of_order_group
        e = k // n * n + k * 953 % n
        kind = "person" if e % 50 == 0 else "auction" if e % 50 < 4 else "bid"
        return {"type": kind, "eid": e, "date_time": self.time(e), **getattr(self, kind)(e)}

    def person(self, e: int) -> dict[str, Any]:
        local = self.slice(e, 7, 3 + self.below(e, 6, 4))
        domain = self.slice(e, 9, 3 + self.below(e, 8, 2))
        digits = word(self.c.seed, e, 5) >> 1
        event = {
            "id": 1000 + e // 50,
            "name": f"{FIRST[self.below(e, 0, 11)]} {LAST[self.below(e, 1, 9)]}",
            "email_address": f"{local}@{domain}.com",
            "credit_card": " ".join(f"{digits // 10_000**i % 10_000:04}" for i in range(4)),
            "city": CITIES[self.below(e, 3, 10)],
            "state": STATES[self.below(e, 4, 6)],
        }
        size = 8 + sum(len(v) for v in event.values() if isinstance(v, str))
        return {**event, "extra": self.extra(e, 200, size)}

    def auction(self, e: int) -> dict[str, Any]:
        item_name = self.slice(e, 7, 3 + self.below(e, 6, 17), blanks=True)
        description = self.slice(e, 9, 3 + self.below(e, 8, 97), blanks=True)
        initial_bid = self.price(e, 3)
        horizon = self.time(e + self.c.in_flight_auctions * 50 // 3) - self.time(e)
        return {
            "id": 1000 + e // 50 * 3 + e % 50 - 1,
            "item_name": item_name,
            "description": description,
            "initial_bid": initial_bid,
            "reserve": initial_bid + self.price(e, 5),
            "expires": self.time(e) + 1 + self.below(e, 4, max(2 * horizon, 1)),
            "seller": self.person_of(e, self.c.hot_seller_ratio, 0, 0),
            "category": 10 + self.below(e, 2, 5),
            "extra": self.extra(e, 500, 48 + len(item_name) + len(description)),
        }

    def bid(self, e: int) -> dict[str, Any]:
        newest = e // 50 * 3 + 2
        if self.below(e, 0, self.c.hot_auction_ratio) > 0:
            auction = newest // self.c.hot_batch * self.c.hot_batch
        else:
            oldest = max(newest - self.c.in_flight_auctions, 0)
            auction = oldest + self.below(e, 1, newest - oldest + 11)
        hot = self.below(e, 5, 2) > 0
        entry = 10_000 + self.below(e, 6, 4) if hot else self.below(e, 6, 10_000)
        return {
            "auction": 1000 + auction,
            "bidder": self.person_of(e, self.c.hot_bidder_ratio, 2, 1),
            "price": self.price(e, 4),
            "channel": HOT[entry - 10_000] if hot else f"channel-{entry}",
            "url": self.url(entry),
            "extra": self.extra(e, 100, 32),
        }


@pytest.fixture(scope="session")
def reference() -> Callable[[Any], Reference]:
    return Reference

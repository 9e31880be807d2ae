"""Look-ups of single keys: from layer to layer until one knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from statemgr.migration.ladder import Asked, Ladder
from statemgr.migration.limits import MigrationLimits
from statemgr.migration.ports import Found, LookedUp
from statemgr.migration.sources import LOOK_UP_TIMEOUT_S


@dataclass(frozen=True)
class _LookUp:
    keys: list[bytes]
    asked: Asked[LookedUp]


class LookUps:
    """The keys that somebody waits for.

    Args:
        ladder: whom to ask.
        limits: how much at once.
        together: one look-up for all keys that wait; else one for each.

    Attributes:
        sent: look-ups sent.
        fetched: keys whose state they brought.
    """

    def __init__(self, ladder: Ladder, limits: MigrationLimits, *, together: bool) -> None:
        self._ladder = ladder
        self._limits = limits
        self._size = limits.look_up_keys if together else 1
        self._waiting: dict[bytes, int] = {}  # key → place to ask
        self._under_way: list[_LookUp] = []
        self._wanted: set[bytes] = set()
        self.sent = 0
        self.fetched = 0

    @property
    def wanted(self) -> int:
        """How many keys are waited for."""
        return len(self._wanted)

    @property
    def lacks_scratch(self) -> bool:
        """Whether keys wait that only a scratch base can tell."""
        bottom = self._ladder.bottom
        return any(self._ladder.place(index) == bottom for index in self._waiting.values())

    def add(self, keys: Iterable[bytes]) -> None:
        """Want these keys too."""
        for key in keys:
            if key not in self._wanted:
                self._wanted.add(key)
                self._waiting[key] = 0

    def settle(self, keys: Iterable[bytes]) -> set[bytes]:
        """These are known by other means; gives those that were wanted."""
        settled = self._wanted.intersection(keys)
        return self._settle(settled)

    def settle_bins(self, first: int, last: int) -> set[bytes]:
        """All keys of these bins are known by other means; gives those that were wanted."""
        return self._settle({key for key in self._wanted if first <= key[0] <= last})

    def send(self, now_s: float) -> None:
        """Ask for what waits, as far as sources may be asked now."""
        by_place: dict[int, list[bytes]] = {}
        for key, index in self._waiting.items():
            by_place.setdefault(self._ladder.place(index), []).append(key)
        for place, keys in by_place.items():
            self._send(place, keys, now_s)

    def over(self, now_s: float) -> bool:
        """Whether :meth:`receive` has something to look at."""
        return any(each.asked.over(now_s) for each in self._under_way)

    def receive(self, now_s: float) -> list[tuple[bytes, bytes | None]]:
        """What has come: store keys with their values, None where deleted or absent for certain."""
        over: list[_LookUp] = []
        under_way: list[_LookUp] = []
        for each in self._under_way:
            (over if each.asked.over(now_s) else under_way).append(each)
        self._under_way = under_way
        return [pair for each in over for pair in self._read(each, now_s)]

    def clear(self) -> None:
        """Want nothing any more; what is under way is dropped when it comes."""
        self._waiting, self._under_way, self._wanted = {}, [], set()

    def _send(self, place: int, keys: Sequence[bytes], now_s: float) -> None:
        source = self._ladder.source(place, now_s)
        if source is None:
            return
        room = self._limits.look_ups - len(self._under_way)
        deadline_s = now_s + LOOK_UP_TIMEOUT_S + self._limits.grace_s
        for start in range(0, min(len(keys), room * self._size), self._size):
            part = list(keys[start : start + self._size])
            for key in part:
                del self._waiting[key]
            self._under_way.append(_LookUp(part, Asked(place, source.look_up(part), deadline_s)))
            self.sent += 1

    def _read(self, look_up: _LookUp, now_s: float) -> list[tuple[bytes, bytes | None]]:
        place = look_up.asked.index
        answer = self._ladder.take(look_up.asked, now_s)
        found = answer.found if answer is not None else ()
        pairs: list[tuple[bytes, bytes | None]] = []
        for key, value in zip(look_up.keys, found, strict=False):
            if key not in self._wanted:
                continue
            if value is Found.UNKNOWN:
                self._waiting[key] = self._ladder.below(place)
            else:
                pairs.append((key, value if isinstance(value, bytes) else None))
        for key in look_up.keys[len(found) :]:
            if key in self._wanted:
                self._waiting[key] = place
        self.fetched += len(pairs)
        return pairs

    def _settle(self, keys: set[bytes]) -> set[bytes]:
        self._wanted -= keys
        for key in keys:
            self._waiting.pop(key, None)
        return keys

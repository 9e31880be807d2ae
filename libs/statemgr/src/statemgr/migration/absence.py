"""Keys that the newest layer certainly does not have: absent without a look-up."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from statemgr.errors import HolderUnavailableError, NoSuchCopyError, StaleRequestError
from statemgr.migration.ladder import Ladder
from statemgr.migration.limits import MigrationLimits
from statemgr.migration.ports import KeySet, Pending
from statemgr.migration.record import is_complete
from statemgr.migration.sources import FILTER_TIMEOUT_S

log = logging.getLogger(__name__)


class Absence:
    """Fetches the newest layer's key filter once, beside everything else; without it look-ups tell the same.

    A filter speaks of values alone, so only that of a copy which is complete says that a key is absent.

    Args:
        ladder: whom to ask.
        limits: pause after a refusal.
        wanted: whether it is fetched at all.

    Attributes:
        excluded: keys that it has told to be absent.
    """

    def __init__(self, ladder: Ladder, limits: MigrationLimits, *, wanted: bool) -> None:
        self.excluded = 0
        self._ladder = ladder
        self._limits = limits
        self._wanted = wanted and bool(ladder.holders)
        self._not_before_s = float("-inf")
        self._under_way: tuple[Pending[KeySet], float] | None = None
        self._keys: KeySet | None = None

    def run(self, now_s: float) -> None:
        """Ask, or take what has come."""
        if self._under_way is not None:
            pending, deadline_s = self._under_way
            if pending.done() or now_s >= deadline_s:
                self._under_way = None
                self._take(pending, now_s)
        elif self._wanted and now_s >= self._not_before_s:
            self._ask(now_s)

    def among(self, keys: Sequence[bytes]) -> list[bytes]:
        """Those of some store keys that are absent for certain."""
        if self._keys is None or not keys:
            return []
        absent = [key for key, may in zip(keys, self._keys.may_have(keys), strict=True) if not may]
        self.excluded += len(absent)
        return absent

    def _ask(self, now_s: float) -> None:
        if self._ladder.place(0) != 0 or self._ladder.source(0, now_s) is None:
            return
        holder = self._ladder.holders[0]
        self._wanted = is_complete(holder.hint)
        if self._wanted:
            self._under_way = holder.filter(), now_s + FILTER_TIMEOUT_S + self._limits.grace_s

    def _take(self, pending: Pending[KeySet], now_s: float) -> None:
        self._wanted = False
        holder = self._ladder.holders[0]
        try:
            keys = pending.result() if pending.done() else None
        except StaleRequestError as error:
            self._wanted, self._not_before_s = error.later, now_s + self._limits.refused_retry_s
        except (HolderUnavailableError, NoSuchCopyError) as error:
            log.info("no key filter of %s, going on with look-ups: %s", holder.name, error)
        else:
            self._keys = keys if keys is not None and holder.answers(keys) else None

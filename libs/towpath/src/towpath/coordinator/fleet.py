"""What replicas and state managers have said, and when, by the coordinator's monotonic clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from towpath.coordinator.limits import Limits
from towpath.coordinator.messages import Heartbeat, HolderBeat


class Presence(StrEnum):
    """Whether a replica is there."""

    PRESENT = "present"
    """Heard lately."""

    EXPECTED = "expected"
    """Known from the log, and not heard since the coordinator began: too early to judge."""

    SILENT = "silent"
    """Not heard for too long."""

    DEAD = "dead"
    """Its supervisor saw it die."""

    STOPPED = "stopped"
    """It said that it ends."""

    @property
    def gone(self) -> bool:
        """Whether its tasks need another owner."""
        return self in {Presence.SILENT, Presence.DEAD, Presence.STOPPED}


LATE_S = 3.0
"""A heartbeat that is heard so long after its sender's death is not its last: that one is given up after a second. Nor
is a report of a death that comes so long after the next life has joined about the one before."""

SPARE_S = 1.0
"""What was said during a pause of ours waits in the socket, and is heard within this time: four heartbeats."""


@dataclass(frozen=True)
class Heard:
    """The newest word of a replica.

    Attributes:
        beat: what it said.
        at_s: when.
        joined_s: when this life of it was first heard.
        follows: a life before it ended, which nobody has reported yet.
        spared: it was given time to be heard after a pause of ours, and has not been heard since.
    """

    beat: Heartbeat
    at_s: float
    joined_s: float
    follows: bool = False
    spared: bool = False

    @property
    def leaving(self) -> bool:
        """Whether it wants to be rid of its tasks."""
        return self.beat.draining or self.beat.phase == "stopping"


@dataclass(frozen=True)
class HolderHeard:
    """The newest word of a state manager."""

    beat: HolderBeat
    at_s: float


@dataclass
class Fleet:
    """All that was heard.

    Attributes:
        begun_s: since when silence counts.
        replicas: (stage, replica) → newest word.
        holders: name → newest word of its state manager.
    """

    begun_s: float
    replicas: dict[tuple[str, str], Heard] = field(default_factory=dict)
    holders: dict[str, HolderHeard] = field(default_factory=dict)
    _died: dict[tuple[str, str], float] = field(default_factory=dict)

    def hear(self, stage: str, replica: str, beat: Heartbeat, now_s: float) -> None:
        """Take a heartbeat; a late one of a life that has ended says nothing.

        A life that goes on saying something has not ended: what was reported late was the end of the one before.
        """
        known = self.replicas.get((stage, replica))
        same_life = known is not None and known.beat.incarnation == beat.incarnation
        died_s = self._died.get((stage, replica))
        if same_life and died_s is not None and now_s - died_s < LATE_S:
            return
        self._died.pop((stage, replica), None)
        if known is not None and same_life and died_s is None:
            self.replicas[stage, replica] = replace(known, beat=beat, at_s=now_s, spared=False)
        else:
            follows = known is not None and not same_life and died_s is None
            self.replicas[stage, replica] = Heard(beat, now_s, joined_s=now_s, follows=follows)

    def hear_holder(self, name: str, beat: HolderBeat, now_s: float) -> None:
        """Take a state manager's heartbeat."""
        self.holders[name] = HolderHeard(beat, now_s)

    def died(self, stage: str, replica: str, now_s: float) -> None:
        """Its supervisor saw it die; counts until another life of it is heard, or it goes on.

        The first report that comes soon after a life has followed another is about that other one; if both have
        ended by then, the second is found by its silence.
        """
        known = self.replicas.get((stage, replica))
        if known is not None and known.follows and now_s - known.joined_s < LATE_S:
            self.replicas[stage, replica] = replace(known, follows=False)
        else:
            self._died[stage, replica] = now_s

    def pass_over(self, gap_s: float, now_s: float, limits: Limits) -> None:
        """A gap in which we did not listen, or not act, does not count; silence before it does (R19).

        Who was not silent yet has a moment to be heard; once, so that gap upon gap keeps nobody present.
        """

        def later(at_s: float) -> float:
            return min(now_s, at_s + gap_s)

        def passed_over(heard: Heard) -> Heard:
            at_s, spared_s = later(heard.at_s), now_s - limits.silence_s + SPARE_S
            if heard.spared or now_s - at_s >= limits.silence_s or at_s >= spared_s:
                return replace(heard, at_s=at_s)
            return replace(heard, at_s=spared_s, spared=True)

        self.begun_s = later(self.begun_s)
        self.replicas = {key: passed_over(heard) for key, heard in self.replicas.items()}
        self.holders = {name: replace(heard, at_s=later(heard.at_s)) for name, heard in self.holders.items()}
        self._died = {key: later(at_s) for key, at_s in self._died.items()}

    def forget_silence(self, now_s: float) -> None:
        """Whatever was not heard until now proves nothing: we begin to listen (R19)."""
        self.begun_s = now_s
        self.replicas = {key: replace(heard, at_s=now_s) for key, heard in self.replicas.items()}
        self.holders = {name: replace(heard, at_s=now_s) for name, heard in self.holders.items()}

    def forget(self, now_s: float, forget_s: float) -> None:
        """Drop what has not been heard for long."""
        self.replicas = {key: heard for key, heard in self.replicas.items() if now_s - heard.at_s < forget_s}
        self.holders = {name: heard for name, heard in self.holders.items() if now_s - heard.at_s < forget_s}
        self._died = {key: at_s for key, at_s in self._died.items() if key in self.replicas or now_s - at_s < forget_s}

    def presence(self, stage: str, replica: str, now_s: float, limits: Limits) -> Presence:
        """Whether a replica is there."""
        heard = self.replicas.get((stage, replica))
        if (stage, replica) in self._died:
            return Presence.DEAD
        if heard is None:
            return Presence.EXPECTED if now_s - self.begun_s < limits.absent_s else Presence.SILENT
        if heard.beat.phase == "stopped":
            return Presence.STOPPED
        return Presence.PRESENT if now_s - heard.at_s < limits.silence_s else Presence.SILENT

    def of_stage(self, stage: str) -> Iterator[tuple[str, Heard]]:
        """Replicas of a stage that were heard."""
        for (name_of_stage, replica), heard in self.replicas.items():
            if name_of_stage == stage:
                yield replica, heard

    def address(self, holder: str) -> str:
        """Where a replica's state manager is; empty: unknown."""
        own = self.holders.get(holder)
        if own is not None:
            return own.beat.address
        return next((heard.beat.state_address for (_, name), heard in self.replicas.items() if name == holder), "")

    def addresses(self) -> dict[str, str]:
        """Name → address of every state manager that is known."""
        names = {name for _, name in self.replicas} | self.holders.keys()
        return {name: address for name in sorted(names) if (address := self.address(name))}

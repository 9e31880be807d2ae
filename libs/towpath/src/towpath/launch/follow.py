"""Keeps as many replicas running as the coordinator wants: looks at its topology, starts pods, asks others to leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from statemgr.migration.ports import Pending, Spawn
from towpath.coordinator.client import CoordinatorClient
from towpath.coordinator.errors import CoordinatorError, RefusedError
from towpath.coordinator.messages import Accepted, ScaleRequest
from towpath.coordinator.statuses import StageStatus, Topology
from towpath.launch.beside import beside
from towpath.launch.fleet import Wanted, reconcile, wanted_of
from towpath.launch.pipeline import Pipeline, ProcessState
from towpath.launch.programs import Program

AT_ONCE = 4
"""Replicas of a stage that one look starts: by the next one fewer may be wanted, or the operator wants to stop."""


class Follower:
    """Follows the coordinator's topology; one look at a time, by the launcher's loop.

    Args:
        pipeline: the running processes.
        client: asks the coordinator.
        initial: stage → replicas at the start, which hold until something else is decided.
        asked: those of them that the operator has named: they replace what was decided in an earlier run.
        make: gives the program of a replica by stage and name.
        say: tells the operator.
        spawn: carries requests that take long.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        client: CoordinatorClient,
        initial: Mapping[str, int],
        asked: Mapping[str, int],
        make: Callable[[str, str], Program],
        say: Callable[[str], None],
        spawn: Spawn = beside,
    ) -> None:
        self._pipeline = pipeline
        self._client = client
        self._initial = initial
        self._make = make
        self._say = say
        self._spawn = spawn
        self._leaving: set[str] = set()
        self._asked = dict(asked)
        self._asking: dict[str, Pending[Accepted]] = {}
        self._reached: bool | None = None
        self._put_off: set[str] = set()
        self._told_of_idle: dict[str, int] = {}

    @property
    def leaving(self) -> frozenset[str]:
        """Replicas that were asked to leave; their ends are no failures."""
        return frozenset(self._leaving)

    def survives(self, name: str, states: Sequence[ProcessState]) -> bool:
        """Whether the application goes on without this replica: others of its stage are there to take its tasks."""
        stage = next((program.stage for program in self._pipeline.programs if program.name == name), None)
        others = (
            {program.name for program in self._pipeline.programs if program.stage == stage} - {name} - self._leaving
        )
        return any(state.name in others and not state.stopped for state in states)

    def look(self, states: list[ProcessState]) -> None:
        """Bring the processes a step nearer to what is wanted.

        Raises:
            PipelineError: they can't be controlled.
            RefusedError: the operator's numbers are refused.
        """
        self._forget_gone(states)
        topology = self._topology()
        if topology is None or not topology.leading:
            return
        for stage in topology.stages:
            asked = self._asked.get(stage.stage)
            if asked is not None and stage.desired not in (None, asked):
                self._ask(stage.stage, asked)
                continue
            self._asked.pop(stage.stage, None)
            self._asking.pop(stage.stage, None)
            if stage.stage in self._initial:
                wanted = wanted_of(stage.stage, stage.desired, stage.members, self._initial)
                self._tell_of_idle(stage, wanted.replicas)
                self._adapt(stage.stage, wanted)

    def _ask(self, stage: str, replicas: int) -> None:
        """Replace what was decided earlier; a later look takes the answer, and tries again if that can't be now.

        The coordinator answers when it is in force, which may take seconds; a stop must not wait for it.
        """
        request = ScaleRequest(stage=stage, replicas=replicas)
        if stage not in self._asking:
            self._asking[stage] = self._spawn(lambda: self._client.scale(request))
        if not self._asking[stage].done():
            return
        try:
            self._asking.pop(stage).result()
        except RefusedError:
            raise
        except CoordinatorError as error:
            if stage not in self._put_off:
                self._say(f"{replicas} of {stage} can't be asked for now, tried again: {error}")
            self._put_off.add(stage)
        else:
            del self._asked[stage]

    def _tell_of_idle(self, stage: StageStatus, replicas: int) -> None:
        """Once for each number: more replicas than tasks cost memory and gain nothing but a replacement at hand."""
        if replicas > stage.partitions and self._told_of_idle.get(stage.stage) != replicas:
            idle = replicas - stage.partitions
            self._say(f"{stage.stage} has {stage.partitions} tasks: {idle} of {replicas} replicas will own none")
        self._told_of_idle[stage.stage] = replicas

    def _adapt(self, stage: str, wanted: Wanted) -> None:
        mine = {program.name for program in self._pipeline.programs if program.stage == stage}
        changes = reconcile(stage, wanted, mine - self._leaving, mine & self._leaving)
        for name in changes.start[:AT_ONCE]:
            self._say(f"{name} is wanted: {wanted.replicas} of {stage}")
            self._pipeline.add(self._make(stage, name))
        for name in changes.retire:
            self._say(f"{name} is asked to hand over its tasks and leave: {wanted.replicas} of {stage}")
            self._leaving.add(name)
            self._pipeline.retire(name)

    def _forget_gone(self, states: list[ProcessState]) -> None:
        for state in states:
            if state.name in self._leaving and state.stopped:
                self._say(f"{state.name} {_left(state.exit_status)}")
                self._pipeline.remove(state.name)
                self._leaving.discard(state.name)

    def _topology(self) -> Topology | None:
        try:
            topology = self._client.topology()
        except CoordinatorError as error:
            if self._reached:
                self._say(f"the coordinator does not answer, replicas stay as they are: {error}")
                self._reached = False
            return None
        if self._reached is False:
            self._say("the coordinator answers again")
        self._reached = True
        return topology


def _left(exit_status: int) -> str:
    return f"has left with status {exit_status}" if exit_status >= 0 else "was ended by a signal before it could leave"

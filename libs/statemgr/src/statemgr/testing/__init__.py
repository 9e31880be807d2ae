"""Fakes that satisfy the same contract suites as the real parts."""

from statemgr.testing.clock import ManualClock
from statemgr.testing.faults import ClientCrashedError
from statemgr.testing.kafka import FakeKafka

__all__ = ["ClientCrashedError", "FakeKafka", "ManualClock"]

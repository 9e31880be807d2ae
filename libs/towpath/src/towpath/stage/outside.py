"""What a stage needs outside of Kafka, looked at before it begins."""

from __future__ import annotations

from towpath.operators.outbox import Outside
from towpath.query.plan import StagePlan


def check_outside(plan: StagePlan) -> None:
    """Refuse to begin where an operator can't do what it is to do outside of Kafka.

    Raises:
        SettingsError: naming what is to be changed.
    """
    for item in (*plan.operators, *(item for output in plan.outputs for way in output.ways for item in way)):
        operator = item.make()
        if isinstance(operator, Outside):
            operator.check()

"""How a batch job runs each step over a whole input.

A batch job is a run whose one batch holds all the input and whose event time is at its end: every key has one result,
every window is closed, and no result has one before it.
"""

from __future__ import annotations

from towpath.operators.aggregates import Aggregates
from towpath.operators.enriched import Enriched
from towpath.operators.highest import Highest
from towpath.operators.keyed_rows import Keeping
from towpath.operators.pairs import Pairs
from towpath.operators.ranked import Ranked
from towpath.query.keyed_steps import CountStep, KeyedRowsStep, ProcessStep
from towpath.query.steps import SideStep, Step
from towpath.query.windowed_steps import AssignWindowsStep, SessionsStep, WindowedRowsStep
from towpath.spark.checks import check_aggregates
from towpath.spark.facts import Unfit
from towpath.spark.row_rules import row_wise


def batch(step: Step) -> str:
    """How a step runs.

    Raises:
        Unfit: it can't.
    """
    match step:
        case CountStep(each=True):
            return "row_number by key, in the order of the input"
        case CountStep():
            return "groupBy"
        case KeyedRowsStep() | WindowedRowsStep():
            return _keyed(step.reduction)
        case SideStep():
            return "a side of the join"
        case AssignWindowsStep():
            return "a row for each of its windows"
        case SessionsStep():
            check_aggregates(step.sessions.aggregates)
            return "gaps by a window function, groupBy"
        case ProcessStep():
            return "applyInArrow by key, in the order of the input"
        case _:
            return row_wise(step)


def _keyed(reduction: Keeping) -> str:
    match reduction:
        case Aggregates():
            check_aggregates(reduction)
            return "groupBy"
        case Ranked():
            return "row_number by key"
        case Highest():
            return "max by key, as a window function"
        case Enriched():
            return "join with the table's newest row of each key"
        case Pairs():
            return "join by key and window"
        case _:
            raise Unfit("it is a keyed step that only services know")

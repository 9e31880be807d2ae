"""How Spark runs the steps that judge each row by itself, in both modes."""

from __future__ import annotations

from towpath.query.steps import (
    ExplodeStep,
    FilterStep,
    LookupStep,
    MapBatchesStep,
    RequireKeyStep,
    SelectStep,
    Step,
    WithColumnsStep,
)
from towpath.query.windowed_steps import RequireEventTimeStep
from towpath.spark.checks import check_expressions, check_types, written
from towpath.spark.facts import Unfit


def row_wise(step: Step) -> str:
    """How a step runs.

    Raises:
        Unfit: it is of another kind, or not written for Spark.
    """
    match step:
        case FilterStep() | WithColumnsStep() | SelectStep():
            check_expressions(written(step))
            return step.name
        case ExplodeStep():
            return "explode"
        case RequireKeyStep() | RequireEventTimeStep():
            return "rows with a null are left out"
        case LookupStep():
            check_types(step.table.schema)
            return "join with a broadcast table"
        case MapBatchesStep():
            return "mapInArrow"
        case _:
            raise Unfit("it is a step that only services know")

"""Steps that judge each row by itself, on Spark frames."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from towpath.query.check import Schema, visible
from towpath.query.plan import RESERVED_PREFIX, SCHED
from towpath.query.steps import (
    ExplodeStep,
    FilterStep,
    LookupStep,
    MapBatchesStep,
    RequireKeyStep,
    SelectStep,
    SideStep,
    Step,
    WithColumnsStep,
)
from towpath.query.windowed_steps import RequireEventTimeStep
from towpath.spark.checks import written
from towpath.spark.frames import TIME, column, columns, evaluated, present, reserved
from towpath.spark.python_code import BatchesFunction, plain
from towpath.spark.types import ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def row_step(frame: DataFrame, step: Step, schema: Schema) -> DataFrame:
    """Rows → what the step makes of them; ``schema``: columns that come out."""
    match step:
        case FilterStep():
            wide, predicates = evaluated(frame, written(step))
            return wide.where(reduce(and_, predicates)).select(*columns(frame.columns)) if predicates else frame
        case WithColumnsStep():
            return _with_columns(frame, step)
        case SideStep():
            return _side(frame, step)
        case SelectStep():
            wide, chosen = evaluated(frame, written(step))
            named = zip(written(step), chosen, strict=True)
            return wide.select(*(form.alias(each.name) for each, form in named), *reserved(frame))
        case ExplodeStep():
            others = [name for name in frame.columns if name != step.column]
            return frame.select(*columns(others), F.explode(column(step.column)).alias(step.column))
        case RequireKeyStep():
            return present(frame, step.keys)
        case RequireEventTimeStep():
            return present(frame, [step.on])
        case LookupStep():
            return _looked_up(frame, step)
        case MapBatchesStep():
            return _mapped(frame, step, schema)
        case _:
            raise TypeError(f"{step.name} is no step on rows")


def _with_columns(frame: DataFrame, step: WithColumnsStep) -> DataFrame:
    wide, made = evaluated(frame, written(step))
    new = {each.name: form for each, form in zip(written(step), made, strict=True)}
    old = [name for name in frame.columns if name not in new]
    return wide.select(*columns(old), *(form.alias(name) for name, form in new.items()))


def _side(frame: DataFrame, step: SideStep) -> DataFrame:
    """A side of a join: the columns that it really has, under the names that both sides know."""
    own = [(each.column, each.name) for each in written(step)]
    named = [column(taken).alias(name) for taken, name in own if taken is not None]
    return frame.select(*named, *reserved(frame, (SCHED,)))


def _looked_up(frame: DataFrame, step: LookupStep) -> DataFrame:
    table = frame.sparkSession.createDataFrame(plain(step.table))
    return frame.join(F.broadcast(table), list(step.on), "inner" if step.inner else "left")


def _mapped(frame: DataFrame, step: MapBatchesStep, schema: Schema) -> DataFrame:
    kept = [name for name in frame.columns if name != TIME]
    carried = [field for field in frame.schema.fields if field.name in kept and field.name.startswith(RESERVED_PREFIX)]
    more = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in carried)
    names = (*visible(schema), *(field.name for field in carried))
    result = ", ".join(part for part in (ddl(schema), more) if part)
    return frame.select(*columns(kept)).mapInArrow(BatchesFunction(step.function, names), result)

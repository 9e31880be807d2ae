"""How Structured Streaming runs each step, and what it can't do on streams.

Its stateful operators append final results by a watermark, or update running ones; a query has one of these modes, and
keeps no state over results that change; there are no window functions. See Apache Spark, "Structured Streaming
Programming Guide", sections "Unsupported Operations" and "Output Modes".
"""

from __future__ import annotations

from dataclasses import replace

from towpath.operators.aggregates import Aggregates
from towpath.operators.enriched import Enriched
from towpath.operators.highest import Highest
from towpath.operators.keyed_rows import Keeping
from towpath.operators.pairs import TIME, Pairs
from towpath.operators.ranked import Ranked
from towpath.operators.windows import Until
from towpath.query.check import Schema
from towpath.query.keyed_steps import CountStep, KeyedRowsStep, ProcessStep
from towpath.query.steps import MapBatchesStep, SideStep, Step
from towpath.query.windowed_steps import AssignWindowsStep, SessionsStep, WindowedRowsStep
from towpath.spark.checks import check_aggregates
from towpath.spark.facts import Facts, Fit, Unfit
from towpath.spark.row_rules import row_wise

MOST_PLACES = 100_000
"""Of max_by."""


def streaming(step: Step, facts: Facts, schema: Schema) -> Fit:
    """How a step runs on a stream; ``schema``: of the rows that come in.

    Raises:
        Unfit: it can't.
    """
    match step:
        case CountStep(each=True):
            raise Unfit("it gives a count for each row, and Structured Streaming gives one a key and trigger")
        case CountStep():
            return Fit("groupBy, update mode", replace(facts.fresh().untimed(), running=step.name))
        case KeyedRowsStep():
            return _keyed(step, facts, schema)
        case SideStep():
            return Fit("a side of the join", _side(step, facts))
        case AssignWindowsStep():
            return _windows(step, facts)
        case WindowedRowsStep(updates=True):
            raise Unfit("its windows give results whenever they change, and this engine those of windows that are over")
        case WindowedRowsStep(reduction=Pairs()):
            return Fit("stream-stream join by key and window, append mode", Facts(stateful=step.name))
        case WindowedRowsStep():
            how = _windowed(step.reduction, schema)
            return Fit(how, Facts(stateful=step.name, of_windows=True))
        case SessionsStep():
            check_aggregates(step.sessions.aggregates)
            _check_time(step.sessions.on, facts.appending())
            return Fit("groupBy session_window, append mode", Facts(stateful=step.name))
        case ProcessStep():
            raise Unfit("it is Python code with state per key, which this engine runs over a whole input only")
        case MapBatchesStep():
            return Fit(row_wise(step), facts.untimed())
        case _:
            return Fit(row_wise(step), facts.behind(step))


def _keyed(step: KeyedRowsStep, facts: Facts, schema: Schema) -> Fit:
    match step.reduction:
        case Aggregates(previous=None) as aggregates:
            check_aggregates(aggregates)
            return Fit("groupBy, update mode", replace(facts.fresh().untimed(), running=step.name))
        case Aggregates():
            raise Unfit("it gives results together with those before (previous=…), which Spark's aggregates forget")
        case Ranked() as ranked:
            _check_order(ranked, schema)
            return Fit("groupBy max_by, update mode", replace(facts.fresh().untimed(), running=step.name))
        case Enriched():
            how = "stream-stream join: a row meets every row that the table has for its key, not its newest alone"
            return Fit(how, replace(facts.appending().untimed(), stateful=step.name))
        case _:
            raise Unfit("it is a keyed step that only services know")


def _check_order(ranked: Ranked, schema: Schema) -> None:
    """Streams have no window functions, but an aggregate that keeps the rows with the greatest values."""
    if ranked.places > MOST_PLACES:
        raise Unfit(f"it keeps {ranked.places} rows, and Structured Streaming at most {MOST_PLACES} a key")
    for name, descending in zip(ranked.by, ranked.descending, strict=True):
        if not descending and not schema[name].is_numeric():
            raise Unfit(
                f"it ranks by {name!r} in ascending order, which is {schema[name]}: that needs a window "
                "function, which Structured Streaming does not have on streams; numbers can do without"
            )


def _windows(step: AssignWindowsStep, facts: Facts) -> Fit:
    if isinstance(step.window, Until):
        moment = "until(…)" if step.window.column == TIME else f"until({step.window.column!r})"
        raise Unfit(
            f"its windows close when event time comes to a moment of their rows ({moment}), and Structured Streaming "
            "closes windows of a fixed size only"
        )
    _check_time(step.on, facts.appending())
    return Fit("window", facts)


def _side(step: SideStep, facts: Facts) -> Facts:
    """Behind a side of a join, where an event time that goes along has another name."""
    if step.on is None:
        return facts.behind(step)
    _check_time(step.on, facts.appending())
    return replace(facts, time=TIME if facts.time is not None else None)


def _check_time(on: str, facts: Facts) -> None:
    if not facts.timed:
        raise Unfit(f"its windows go by {on!r}, behind a step that loses the watermark of Structured Streaming")
    if facts.time is not None and on != facts.time:
        raise Unfit(
            f"its windows go by {on!r}, and Structured Streaming knows the event time of the source only, "
            f"{facts.time!r}"
        )


def _windowed(reduction: Keeping, schema: Schema) -> str:
    match reduction:
        case Aggregates():
            check_aggregates(reduction)
            return "groupBy window, append mode"
        case Ranked():
            _check_order(reduction, schema)
            return "groupBy window, max_by, append mode"
        case Highest():
            return "groupBy window, rows collected and compared, append mode"
        case _:
            raise Unfit("it is a keyed step that only services know")

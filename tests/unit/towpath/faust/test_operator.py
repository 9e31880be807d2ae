import asyncio

import msgspec
import polars as pl
import pytest

from tests.unit.towpath.operators.recording import RecordingContext
from towpath import faust
from towpath.faust.operator import FRAME_SCHEMA


@pytest.fixture
def app():
    return faust.App("app", stream_processing_timeout=5.0)


def frame(*values, partition=0, key=None):
    rows = [(partition, key, msgspec.json.encode(value)) for value in values]
    return pl.DataFrame(rows, schema=FRAME_SCHEMA, orient="row")


class Stage:
    """One agent's operator with state, to be given batches."""

    def __init__(self, app, name):
        self.plan = app.plan().stage(name)
        self.context = RecordingContext(self.plan.tables)
        self.operator = self.plan.operators[0].make()

    def process(self, batch):
        assert self.operator.process(batch, self.context).height == 0
        return self

    @property
    def sent(self):
        """Topic, task, key and value of every record."""
        return [(topic, *row) for topic, rows in self.context.emitted for row in rows.rows()]


def test_every_event_of_a_batch_is_handled_before_process_returns(app):
    seen = []

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            await asyncio.sleep(0)
            seen.append(value)

    stage = Stage(app, "agent").process(frame(1, 2))
    assert seen == [1, 2]
    stage.process(frame(3))
    assert seen == [1, 2, 3]


def test_the_agents_local_variables_live_from_batch_to_batch(app):
    totals = []

    @app.agent("in")
    async def agent(stream):
        total = 0
        async for value in stream:
            total += value
            totals.append(total)

    Stage(app, "agent").process(frame(1, 2)).process(frame(3))
    assert totals == [1, 3, 6]


def test_tables_belong_to_the_task_of_the_event(app):
    counts = app.Table("counts", default=int)

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            counts[value] += 1

    stage = Stage(app, "agent").process(frame("a", "a", "b")).process(frame("a", partition=2))
    tables = [stage.context.tasks[task].table("counts") for task in (0, 2)]
    assert [table.get_many([b"a", b"b"]) for table in tables] == [[2, 1], [1, None]]


def test_a_table_is_a_dict_of_the_task(app):
    table = app.Table("t", default=list, key_type=int)
    seen = {}

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            table[value] = [*table[value], value]
            table.update({7: ["x"], 8: ["y"]})
            del table[8]
            seen.update(
                items=sorted(table.items()),
                keys=sorted(table),
                has=(value in table, 8 in table),
                got=(table.get(8), table.get(8, "none")),
                popped=(table.pop(7), table.pop(7, None)),
                default=table.setdefault(9, ["new"]),
                fresh=table[99],
            )
            with pytest.raises(KeyError):
                del table[8]
            with pytest.raises(KeyError):
                table.pop(8)
            with pytest.raises(ValueError, match="can't hold None"):
                table[1] = None

    stage = Stage(app, "agent").process(frame(5))
    assert stage.context.dead == []
    assert seen == {
        "items": [(5, [5]), (7, ["x"])],
        "keys": [5, 7],
        "has": (True, False),
        "got": (None, "none"),
        "popped": (["x"], None),
        "default": ["new"],
        "fresh": [],
    }
    assert stage.context.table("t") == {b"5": [5], b"9": ["new"]}


def test_a_value_changed_in_place_is_not_stored_until_it_is_assigned(app):
    table = app.Table("t", default=list)

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            items = table["k"]
            items.append(value)
            if value != 2:
                table["k"] = items

    assert Stage(app, "agent").process(frame(1, 2, 3)).context.table("t") == {b"k": [1, 3]}


def test_a_table_can_hold_records(app):
    class Total(faust.Record):
        n: int = 0

    table = app.Table("t", default=Total, value_type=Total)

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            table["k"] = table["k"].derive(n=table["k"].n + value)

    stage = Stage(app, "agent").process(frame(1, 2))
    assert stage.context.table("t") == {b"k": Total(3)}
    assert stage.plan.tables[0].codec.decode(b'{"n":4}') == Total(4)


def test_records_are_sent_with_keys_to_topics_agents_and_sinks(app):
    out = app.topic("out", key_type=str, value_type=str)
    printed = []

    @app.agent(value_type=int)
    async def other(stream):
        async for _ in stream:
            pass

    @app.agent("in", sink=[out, printed.append])
    async def agent(stream):
        async for value in stream:
            await other.send(key="k", value=value)
            yield str(value)

    stage = Stage(app, "agent").process(frame(1, 2))
    assert stage.sent == [
        ("app.other", 0, b"k", b"1"),
        ("app.other", 0, b"k", b"2"),
        ("out", 0, None, b'"1"'),
        ("out", 0, None, b'"2"'),
    ]
    assert printed == ["1", "2"]


def test_events_have_keys_and_can_be_forwarded(app):
    out = app.topic("out")
    seen = []

    @app.agent("in")
    async def agent(stream):
        async for event in stream.events():
            seen.append((event.key, event.value))
            await event.forward(out)

    assert Stage(app, "agent").process(frame(1, key=b"k")).sent == [("out", 0, b"k", b"1")]
    assert seen == [(b"k", 1)]


def test_items_and_filter(app):
    seen = []

    @app.agent("in", key_type=str)
    async def agent(stream):
        async for key, value in stream.filter(lambda value: value > 1).items():
            seen.append((key, value))

    Stage(app, "agent").process(frame(1, 2, 3, key=b"k"))
    assert seen == [("k", 2), ("k", 3)]


def test_an_event_that_fails_is_a_dead_letter_and_leaves_no_trace_and_the_next_are_handled(app):
    table, out = app.Table("t", default=int), app.topic("out")

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            table["n"] += 1
            await out.send(value=value)
            if value == 2:
                raise ZeroDivisionError("two")

    stage = Stage(app, "agent").process(frame(1, 2, 3, partition=1, key=b"k"))
    assert stage.context.dead == [(1, b"2", "agent 'agent', key b'k': ZeroDivisionError: two")]
    assert stage.context.table("t") == {b"n": 2}
    assert [value for *_, value in stage.sent] == [b"1", b"3"]


def test_the_last_event_of_a_batch_may_fail_too(app):
    seen = []

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            seen.append(value)
            raise ValueError(value)

    stage = Stage(app, "agent").process(frame(1, 2)).process(frame(3))
    assert seen == [1, 2, 3]
    assert len(stage.context.dead) == 3


def test_a_value_that_is_not_of_the_type_is_a_dead_letter_before_the_agent_sees_it(app):
    class Point(faust.Record):
        x: int

    seen = []

    @app.agent("in", value_type=Point)
    async def agent(stream):
        async for point in stream:
            seen.append(point.x)

    stage = Stage(app, "agent").process(frame({"x": 1}, {"y": 2}, {"x": 3}))
    assert seen == [1, 3]
    assert "missing required field `x`" in stage.context.dead[0][2]


def test_an_agent_that_returns_begins_anew_with_the_next_event(app):
    seen = []

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            seen.append(value)
            break

    Stage(app, "agent").process(frame(1, 2)).process(frame(3))
    assert seen == [1, 2, 3]


def test_an_agent_that_awaits_for_ever_is_named_with_the_key_of_the_event():
    app = faust.App("app", stream_processing_timeout=0.02)

    @app.agent("in")
    async def agent(stream):
        async for _ in stream:
            await asyncio.Event().wait()

    message = (
        r"agent 'agent' has not finished the event with key b'k' of task 3 in 0.02 s: give what it awaits a deadline"
    )
    with pytest.raises(faust.AgentStuckError, match=message):
        Stage(app, "agent").process(frame(1, partition=3, key=b"k"))


def test_a_cancelled_await_fails_the_event_not_the_stage(app):
    @app.agent("in")
    async def agent(stream):
        async for _ in stream:
            task = asyncio.ensure_future(asyncio.Event().wait())
            task.cancel()
            await task

    assert "was cancelled" in Stage(app, "agent").process(frame(1)).context.dead[0][2]


def test_tables_and_topics_outside_of_an_event_say_so(app):
    table, topic = app.Table("t", default=int), app.topic("out")
    with pytest.raises(faust.NoCurrentEventError, match="only inside an agent, while it handles an event"):
        _ = table["k"]
    with pytest.raises(faust.NoCurrentEventError):
        topic.send_soon(value=1)


def test_what_the_planner_could_not_see_is_named_when_it_is_used(app):
    hidden = {"topic": app.topic("out"), "table": app.Table("t", default=int)}

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            if value == 1:
                await hidden["topic"].send(value=value)
            hidden["table"]["k"] += 1

    stage = Stage(app, "agent").process(frame(1, 2))
    assert "was planned without topic 'out'" in stage.context.dead[0][2]
    assert "was planned without table 't'" in stage.context.dead[1][2]


def test_options_of_send_that_mean_something_else_here_are_refused(app):
    out = app.topic("out")

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            await out.send(value=value, partition=3)

    assert "send(partition=…) is not supported" in Stage(app, "agent").process(frame(1)).context.dead[0][2]


def test_group_by_gives_values_their_key_and_reports_those_without(app):
    class View(faust.Record):
        page: str | None

    @app.agent("in", value_type=View)
    async def agent(stream):
        async for _ in stream.group_by(View.page):
            pass

    context = RecordingContext()
    operator = app.plan().stage("agent-by-page").operators[0].make()
    result = operator.process(frame({"page": "a"}, {"page": None}, {"page": 5}, key=b"old"), context)
    assert result.rows() == [(0, b"a", b'{"page":"a"}')]
    assert ["null" in reason or "Expected" in reason for _, _, reason in context.dead] == [True, True]


def test_a_closed_operator_has_ended_its_agent(app):
    ended = []

    @app.agent("in")
    async def agent(stream):
        try:
            async for _ in stream:
                pass
        finally:
            ended.append(True)

    stage = Stage(app, "agent").process(frame(1))
    planned = len(ended)
    stage.operator.close()
    stage.operator.close()
    assert len(ended) == planned + 1


def test_a_table_without_a_type_holds_what_json_can_hold_whatever_its_default(app):
    totals = app.Table("totals", default=int)

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            totals["sum"] += value

    stage = Stage(app, "agent").process(frame(1, 0.5))
    assert stage.context.table("totals") == {b"sum": 1.5}
    (spec,) = stage.plan.tables
    assert spec.codec.decode(spec.codec.encode(1.5)) == 1.5
    assert spec.codec.decode(spec.codec.encode(1)) == 1


def test_a_table_of_sets_gives_sets_again(app):
    seen = app.Table("seen", default=set)

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            seen["all"] = seen["all"] | {value}

    stage = Stage(app, "agent").process(frame(1, 2))
    assert stage.context.table("seen") == {b"all": {1, 2}}
    (spec,) = stage.plan.tables
    assert spec.codec.decode(spec.codec.encode({1, 2})) == {1, 2}


@pytest.mark.parametrize("wrong", ["text", object()])
def test_a_value_that_could_not_be_read_again_costs_only_its_event(app, wrong):
    latest = app.Table("latest", value_type=int)

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            latest["key"] = wrong if value == 2 else value

    stage = Stage(app, "agent").process(frame(1, 2))
    assert stage.context.table("latest") == {b"key": 1}
    assert "CodecError" in stage.context.dead[0][2]

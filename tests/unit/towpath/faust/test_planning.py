import pytest

from towpath import faust
from towpath.query.plan import Edge, Format


@pytest.fixture
def app():
    return faust.App("app", topic_partitions=4, store="memory://")


class View(faust.Record):
    page: str
    user: str


def test_an_agent_is_a_stage_that_reads_its_topic_and_writes_what_it_names(app):
    views, users = app.topic("views", value_type=View), app.topic("users", partitions=2)

    @app.agent(views)
    async def split(stream):
        async for view in stream:
            await users.send(key=view.user, value=view)

    (stage,) = app.plan().stages
    assert (stage.name, stage.backend, stage.stateful) == ("split", "memory", False)
    assert [(item.topic, item.format, item.partitions) for item in stage.inputs] == [("views", Format.BYTES, None)]
    (output,) = stage.outputs
    assert (output.topic, output.edge, output.key, output.partitions) == ("users", Edge.HASH, ("key",), 2)
    assert (output.inner, output.default) == (False, False)


def test_an_agent_without_a_topic_has_one_of_its_own(app):
    @app.agent(value_type=str)
    async def words(stream):
        async for _ in stream:
            pass

    assert app.plan().stage("words").inputs[0].topic == "app.words"
    assert app.plan().stage("words").inputs[0].partitions == 4


def test_group_by_puts_a_stage_before_the_agent(app):
    counts = app.Table("counts", default=int)

    @app.agent("views", value_type=View)
    async def count(stream):
        async for view in stream.group_by(View.page):
            counts[view.page] += 1

    plan = app.plan()
    assert plan.names == ["count-by-page", "count"]
    (written,), (read,) = plan.stage("count-by-page").outputs, plan.stage("count").inputs
    assert written.topic == read.topic
    assert (written.edge, written.partitions, read.partitions) == (Edge.HASH, 4, 4)
    assert [table.name for table in plan.stage("count").tables] == ["counts"]


def test_group_by_a_function_needs_a_name(app):
    @app.agent("t")
    async def agent(stream):
        async for _ in stream.group_by(lambda value: value["x"]):
            pass

    with pytest.raises(faust.FaustProgramError, match="needs a name"):
        app.plan()


def test_stages_come_in_the_order_of_the_data_whatever_the_order_of_the_text(app):
    @app.agent(value_type=str)
    async def last(stream):
        async for _ in stream:
            pass

    @app.agent(value_type=str, sink=[last])
    async def middle(stream):
        async for value in stream:
            yield value

    @app.agent("t")
    async def first(stream):
        async for value in stream:
            middle.send_soon(value=value)

    assert app.plan().names == ["first", "middle", "last"]


def test_agents_may_send_in_a_circle(app):
    @app.agent(value_type=str)
    async def again(stream):
        async for value in stream:
            await again.send(value=value)

    assert app.plan().names == ["again"]


def test_what_helper_functions_touch_is_found(app):
    table, topic = app.Table("t", default=int), app.topic("out")

    def helper(value):
        table[value] += 1
        send(value)

    def send(value):
        topic.send_soon(value=value)

    @app.agent("in")
    async def agent(stream):
        async for value in stream:
            helper(value)

    stage = app.plan().stage("agent")
    assert [output.topic for output in stage.outputs] == ["out"]
    assert [spec.name for spec in stage.tables] == ["t"]


def test_two_agents_can_not_share_a_table(app):
    table = app.Table("shared", default=int)

    @app.agent("a")
    async def one(stream):
        async for value in stream:
            table[value] += 1

    @app.agent("b")
    async def two(stream):
        async for value in stream:
            table[value] += 1

    with pytest.raises(faust.UnsupportedFaustFeatureError, match=r"table 'shared' in two agents \('one' and 'two'\)"):
        app.plan()


def test_a_program_without_agents_is_refused(app):
    with pytest.raises(faust.FaustProgramError, match="has no agents"):
        app.plan()


def test_names_are_unique(app):
    app.Table("t")
    with pytest.raises(faust.FaustProgramError, match="there is a table 't' already"):
        app.Table("t")

    async def agent(stream):
        async for _ in stream:
            pass

    app.agent("x")(agent)
    with pytest.raises(faust.FaustProgramError, match="there is an agent 'agent' already"):
        app.agent("y")(agent)


def test_an_agent_must_be_async(app):
    with pytest.raises(faust.FaustProgramError, match="must be `async def`"):

        @app.agent("x")
        def agent(stream):
            return None


@pytest.mark.parametrize("fault", ["ends", "raises", "waits"])
def test_an_agent_that_does_not_come_to_its_loop_is_named(app, fault):
    @app.agent("x")
    async def agent(stream):
        if fault == "raises":
            raise ZeroDivisionError("no")
        if fault == "waits":
            import asyncio

            await asyncio.sleep(0)
        if fault != "ends":
            async for _ in stream:
                pass

    message = {
        "ends": "without asking for an event",
        "raises": "with ZeroDivisionError: no",
        "waits": "waits for something",
    }
    with pytest.raises(faust.FaustProgramError, match=message[fault]):
        app.plan()


def test_a_second_version_begins_afresh_under_another_name():
    assert faust.App("app", version=2).id == "app-v2"

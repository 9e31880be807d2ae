"""Whatever Faust has and Towpath has not is named where it is written, with what to use instead."""

import pytest

from towpath import faust


@pytest.fixture
def app():
    return faust.App("app")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda app: app.command(), "app.command is not supported by towpath.faust: run it beside the stages"),
        (lambda app: app.timer(interval=1.0), "app.timer is not supported"),
        (lambda app: app.crontab("* * * * *"), "app.crontab is not supported"),
        (lambda app: app.task, "app.task is not supported"),
        (lambda app: app.page("/"), "app.page is not supported"),
        (lambda app: app.table_route(table=None), "app.table_route is not supported"),
        (lambda app: app.GlobalTable("t"), "app.GlobalTable is not supported"),
        (lambda app: app.main(), "start it by `towpath run <module>`"),
        (lambda app: app.on_rebalance_complete.connect, "app.on_rebalance_complete is not supported"),
        (lambda app: app.Table("t").tumbling(10), r"Table.tumbling is not supported.*window's start into the key"),
        (lambda app: app.Table("t").hopping(10, 5), "Table.hopping is not supported"),
        (lambda app: app.Table("t", window=None), r"app.Table\(window=…\) is not supported"),
        (lambda app: app.topic("a", "b"), "app.topic with 2 names is not supported"),
        (lambda app: app.topic(pattern="a.*"), r"app.topic\(pattern=…\) is not supported"),
        (lambda app: app.topic("a", schema=None), r"app.topic\(schema=…\) is not supported.*key_type="),
        (lambda app: app.topic("a", value_serializer="avro"), "serializer 'avro' of topic 'a' is not supported"),
        (lambda app: app.agent("a", concurrency=4), r"app.agent\(concurrency=…\) is not supported.*replicas"),
        (lambda app: faust.App("x", web_port=80), "App setting 'web_port' is not supported"),
        (lambda app: faust.App("x", store="aerospike://"), "store='aerospike://' is not supported"),
        (lambda app: faust.Schema, "faust.Schema is not supported"),
        (lambda app: faust.TumblingWindow, "faust.TumblingWindow is not supported"),
        (lambda app: app.topic("a").stream(), "Topic.stream is not supported"),
    ],
)
def test_a_feature_is_named_with_what_to_use_instead(app, write, message):
    with pytest.raises(faust.UnsupportedFaustFeatureError, match=message):
        write(app)


@pytest.mark.parametrize(
    "read",
    [
        lambda stream: stream.take(10, within=5),
        lambda stream: stream.through("x"),
        lambda stream: stream & stream,
        lambda stream: stream.join(1),
        lambda stream: stream.group_by(lambda value: value, name="a", topic="t"),
        lambda stream: stream.group_by(lambda value: value, name="a").group_by(lambda value: value, name="b"),
    ],
)
def test_a_stream_feature_is_named_when_the_program_is_planned(app, read):
    @app.agent("t")
    async def agent(stream):
        async for _ in read(stream):
            pass

    with pytest.raises(faust.UnsupportedFaustFeatureError):
        app.plan()


def test_what_faust_has_not_either_is_an_ordinary_error(app):
    with pytest.raises(AttributeError, match=r"App has no attribute 'taks'; did you mean 'task'\?"):
        _ = app.taks
    with pytest.raises(AttributeError):
        _ = faust.nothing
    with pytest.raises(TypeError, match="no argument 'colour'"):
        app.Table("t", colour=1)
    assert not hasattr(app.topic("t"), "no_such_attribute")


def test_the_error_can_be_caught_as_not_implemented(app):
    with pytest.raises(NotImplementedError):
        app.timer(1)

import polars as pl
import pytest

from statemgr.state import TableSpec, json_codec
from tests.unit.towpath.operators.recording import RecordingContext
from towpath.operators.process import KeyedProcess

TABLES = [TableSpec("seen", 0, json_codec(list[int]))]


def remember(row, state):
    seen = state.get([])
    seen.append(row["v"])
    state.set(seen)
    if row["v"] < 0:
        raise ValueError("negative")
    if row["v"] > 1:
        yield {"k": row["k"], "seen": len(seen)}


def frame(*pairs):
    schema = {"k": pl.String, "v": pl.Int64, "__sched_ms": pl.Int64, "__partition": pl.Int32}
    return pl.DataFrame([(k, v, 100 + n, 0) for n, (k, v) in enumerate(pairs)], schema=schema, orient="row")


def operator():
    return KeyedProcess(["k"], remember, {"k": pl.String, "seen": pl.Int64}, "seen")


def test_each_row_sees_the_state_that_the_row_before_left():
    context = RecordingContext(TABLES)
    result = operator().process(frame(("a", 1), ("b", 2), ("a", 3)), context)
    assert result.select("k", "seen", "__sched_ms").rows() == [("b", 1, 101), ("a", 2, 102)]
    assert context.table("seen") == {b"a": [1, 3], b"b": [2]}


def test_a_row_that_fails_is_a_dead_letter_and_leaves_no_trace_in_the_state():
    context = RecordingContext(TABLES)
    result = operator().process(frame(("a", 5), ("a", -1), ("a", 6)), context)
    assert result.get_column("seen").to_list() == [1, 2]
    assert context.table("seen") == {b"a": [5, 6]}
    assert [(partition, reason) for partition, _, reason in context.dead] == [(0, "ValueError: negative")]
    assert context.dead[0][1] == b'{"k":"a","v":-1,"sched_ms":101}'


def test_a_column_that_the_schema_lacks_is_named():
    context = RecordingContext(TABLES)
    KeyedProcess(["k"], lambda row, state: [{"x": 1}], {"k": pl.String}, "seen").process(frame(("a", 1)), context)
    assert "the schema of process() lacks: x" in context.dead[0][2]


def test_a_value_set_to_none_is_deleted():
    context = RecordingContext(TABLES)
    operator().process(frame(("a", 1)), context)

    def forget(row, state):
        state.delete()
        return []

    KeyedProcess(["k"], forget, {"k": pl.String}, "seen").process(frame(("a", 1)), context)
    assert context.table("seen") == {}


@pytest.mark.parametrize("wrong", ["text", 2**70])
def test_a_value_that_its_column_can_not_hold_costs_only_its_row(wrong):
    def total(row, state):
        state.set([*state.get([]), row["v"]])
        if row["v"] < 0:
            raise ValueError("negative")
        yield {"k": row["k"], "seen": wrong if row["v"] == 2 else sum(state.get())}

    context = RecordingContext(TABLES)
    process = KeyedProcess(["k"], total, {"k": pl.String, "seen": pl.Int64}, "seen")
    result = process.process(frame(("a", 1), ("a", 2), ("b", -1), ("a", 4)), context)
    assert result.select("seen", "__sched_ms").rows() == [(1, 100), (5, 103)]
    assert context.table("seen") == {b"a": [1, 4]}
    assert [value for _, value, _ in context.dead] == [
        b'{"k":"a","v":2,"sched_ms":101}',
        b'{"k":"b","v":-1,"sched_ms":102}',
    ]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ("text", "CodecError"),
        ([1, "text"], "CodecError"),
        (object(), "CodecError"),
        ([10] * 400_000, "RecordTooLargeError: key and value in table 'seen' have 1200004 bytes"),
    ],
    ids=["type", "inner-type", "no-json", "too-large"],
)
def test_a_state_that_could_not_be_written_or_read_again_is_refused_at_its_row(wrong, error):
    def keep(row, state):
        state.set(wrong if row["v"] == 2 else [row["v"]])
        return [{"k": row["k"]}]

    context = RecordingContext(TABLES)
    process = KeyedProcess(["k"], keep, {"k": pl.String}, "seen")
    assert process.process(frame(("a", 1), ("a", 2)), context).height == 1
    assert context.table("seen") == {b"a": [1]}
    assert error in context.dead[0][2]


def test_a_batch_whose_rows_all_fail_gives_no_rows_and_changes_nothing():
    context = RecordingContext(TABLES)
    result = operator().process(frame(("a", -1), ("b", -2)), context)
    assert result.columns == ["k", "seen", "__sched_ms", "__partition"]
    assert result.height == 0
    assert context.table("seen") == {}

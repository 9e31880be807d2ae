"""A stage is warmed by its own code; nothing of a user's is called, and nothing is left."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
import structlog
from structlog.testing import capture_logs

from statemgr.state import TableSpec, json_codec
from tests.unit.towpath.stage.plans import SOURCE, count_stage, key_count, pass_stage
from towpath.operators.process import KeyedProcess
from towpath.operators.rows import Keep, MapBatches, RequireKey, WithColumns
from towpath.query.plan import BYTES_SCHEMA, Format, InputPlan, Operator, OperatorPlan, StagePlan
from towpath.stage.chain import OperatorChain
from towpath.stage.gate import Gate
from towpath.stage.router import Router
from towpath.stage.settings import StageSettings
from towpath.stage.warm_up import ROWS, sample, warm_up, without_user_code


def never(*_: Any) -> Any:
    raise AssertionError("user code was called")


def never_rows(row: dict[str, Any], state: Any) -> Iterator[dict[str, Any]]:
    return iter(never(row, state))


def made(*operators: Operator) -> tuple[OperatorPlan, ...]:
    return tuple(OperatorPlan(f"step {number}", lambda it=it: it) for number, it in enumerate(operators))


def process_stage() -> StagePlan:
    """The user's function on an inner edge."""
    schema = {"auction": pl.Int64(), "note": pl.String()}
    return replace(
        count_stage(),
        inputs=(InputPlan(SOURCE, Format.ARROW, {"auction": pl.Int64}, 8),),
        operators=made(RequireKey(["auction"]), KeyedProcess(["auction"], never_rows, schema, "notes")),
        tables=(TableSpec("notes", 0, json_codec(str)),),
    )


def bytes_stage() -> StagePlan:
    return replace(
        pass_stage(), inputs=(InputPlan(SOURCE, Format.BYTES, BYTES_SCHEMA),), operators=made(MapBatches(never))
    )


def settings(plan: StagePlan) -> StageSettings:
    return StageSettings(query=plan.app, stage=plan.name)


@pytest.fixture(autouse=True)
def said() -> Iterator[list[Any]]:
    """What the log was told, of any level."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET))
    with capture_logs() as logs:
        yield logs
    structlog.reset_defaults()


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was gone through, with the rows that were seen; the real code runs."""
    seen: list[str] = []

    def watch(owner: type, name: str, rows: Any) -> None:
        real = getattr(owner, name)

        def watched(self: Any, *args: Any, **options: Any) -> Any:
            result = real(self, *args, **options)
            seen.append(f"{owner.__name__}.{name}: {rows(args, result)}")
            return result

        monkeypatch.setattr(owner, name, watched)

    watch(Gate, "leave", lambda _, frames: sum(frame.height for frame in frames))
    watch(OperatorChain, "run", lambda args, _: args[0].height)
    watch(OperatorChain, "after_gate", lambda args, _: args[0].height)
    watch(Router, "send", lambda args, _: args[0].height)
    return seen


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(count_stage("each"), id="json-count-each"),
        pytest.param(key_count("each").plan().stage("count"), id="arrow-count"),
        pytest.param(process_stage(), id="user-function"),
    ],
)
def test_rows_wait_at_the_gate_then_pass_the_operator_and_are_written(
    plan: StagePlan, ran: list[str], said: list[Any]
) -> None:
    warm_up(plan, settings(plan))
    assert [entry["event"] for entry in said] == ["warm"]
    both = 2 * ROWS
    assert [each for each in ran if not each.endswith(": 0")] == [
        f"Gate.leave: {both}",
        f"OperatorChain.after_gate: {both}",
        f"Router.send: {both}",
    ]


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(pass_stage(operators=made(Keep(["auction"]))), id="stateless"),
        pytest.param(pass_stage(operators=made(MapBatches(never))), id="batch-function"),
        pytest.param(pass_stage(operators=made(WithColumns([pl.col("auction").map_batches(never)]))), id="expression"),
        pytest.param(bytes_stage(), id="bytes"),
        pytest.param(replace(count_stage(), operators=made(MapBatches(never))), id="batch-function-with-state"),
        pytest.param(
            pass_stage({"a": pl.List(pl.Int8), "b": pl.Decimal(10, 2), "c": pl.Boolean, "d": pl.Float64}), id="types"
        ),
    ],
)
def test_every_stage_can_be_warmed_and_no_user_code_is_called(plan: StagePlan, ran: list[str], said: list[Any]) -> None:
    warm_up(plan, settings(plan))
    assert [entry["event"] for entry in said] == ["warm"]
    assert f"OperatorChain.run: {2 * ROWS}" in ran


def test_a_chain_ends_before_the_first_step_that_may_hold_user_code() -> None:
    plan = pass_stage(operators=made(Keep(["auction"]), MapBatches(never), Keep(["auction"])))
    ours = without_user_code(plan)
    assert [item.name for item in ours.operators] == ["step 0"]
    assert ours.outputs == ()


def test_a_chain_of_ours_keeps_its_outputs() -> None:
    plan = count_stage()
    assert without_user_code(plan).outputs == plan.outputs


def test_a_stage_starts_though_warming_up_fails(said: list[Any]) -> None:
    plan = pass_stage(operators=made(Keep(["no such column"])))
    warm_up(plan, settings(plan))
    assert said[0]["log_level"] == "warning"
    assert "no such column" in said[0]["cause"]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        pytest.param(pl.Int8(), [0, 1], id="int"),
        pytest.param(pl.String(), ["0", "1"], id="string"),
        pytest.param(pl.Binary(), [b"0", b"1"], id="binary"),
        pytest.param(pl.Boolean(), [False, True], id="boolean"),
        pytest.param(pl.Struct({"a": pl.Int64}), [None, None], id="no-number"),
    ],
)
def test_made_up_rows_have_the_types_of_the_stage(dtype: Any, expected: Sequence[Any]) -> None:
    schema: Mapping[str, Any] = {"column": dtype}
    rows = sample(schema)
    assert dict(rows.schema) == schema
    assert rows.height == ROWS
    if expected != [None, None]:
        assert rows.get_column("column").head(2).to_list() == expected

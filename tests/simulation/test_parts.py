"""The simulation's own parts: time, processes, network, oracle; each can fail."""

from __future__ import annotations

import random

import pytest

from statemgr.control.records import Strategy
from tests.simulation.clocks import ProcessClock
from tests.simulation.lanes import Process
from tests.simulation.load import plan_load
from tests.simulation.network import Network, Weather
from tests.simulation.oracle import compute, differences
from tests.simulation.rows import IDLE, Output, Record, Row, decode_output, decode_record, encode_output, encode_record
from tests.simulation.schedule import plan
from tests.simulation.world import SimulationError, World

INPUT = [
    (0, b"a 100 k1+90 k2+95"),
    (1, b"b 50 k1+40"),
    (2, b"a 200 k1-30 k1+160"),
    (3, b"b idle"),
]


def run(world: World) -> None:
    world.run_until(100.0)
    world.close()


def test_processes_take_turns_by_time() -> None:
    world, seen = World(1), []

    def body(name: str, pause_s: float) -> None:
        for _ in range(2):
            world.sleep(pause_s)
            seen.append((name, round(world.now_s, 3)))

    world.start("a", lambda _: body("a", 1.0))
    world.start("b", lambda _: body("b", 1.5))
    run(world)
    assert seen == [("a", 1.0), ("b", 1.5), ("a", 2.0), ("b", 3.0)]


def test_nothing_of_a_killed_process_runs_any_more() -> None:
    world, seen = World(1), []

    def body(_: Process) -> None:
        try:
            world.sleep(2.0)
            seen.append("awake")
        finally:
            seen.append("cleaned up")

    process = world.start("a", body)
    world.after(1.0, lambda: world.kill(process, "test"))
    world.run_until(100.0)
    assert seen == []
    world.close()


def test_a_stopped_process_goes_on_late() -> None:
    world, seen = World(1), []

    def body(_: Process) -> None:
        world.sleep(1.0)
        seen.append(world.now_s)

    process = world.start("a", body)
    world.after(0.5, lambda: world.stop(process))
    world.after(5.0, lambda: world.resume(process))
    run(world)
    assert seen == [5.0]


def test_what_a_process_ends_with_ends_the_run() -> None:
    world = World(1)

    def body(_: Process) -> None:
        raise KeyError("lost")

    world.start("a", body)
    with pytest.raises(KeyError, match="lost"):
        world.run_until(1.0)
    world.close()


def test_a_run_that_never_ends_is_ended() -> None:
    world = World(1)

    def again() -> None:
        world.after(0.0, again)

    again()
    with pytest.raises(SimulationError, match="circles"):
        world.run_until(1.0)


def test_clocks_of_a_process_jump_without_its_monotonic_one() -> None:
    world = World(1)
    process = world.start("a", lambda _: None)
    world.run_until(3.0)
    clock = ProcessClock(world, process)
    before = clock.wall_ms(), clock.monotonic_s()
    process.wall_offset_s -= 10.0
    assert (clock.wall_ms() - before[0], clock.monotonic_s() - before[1]) == (-10_000, 0.0)


def test_a_network_loses_repeats_and_overtakes() -> None:
    world, arrived = World(5), []
    network = Network(world, Weather(lost=0.2, twice=0.2, slow=0.3, slow_s=1.0))
    for number in range(100):
        world.at(number * 0.01, lambda number=number: network.send("a", "b", lambda: arrived.append(number)))
    run(world)
    assert len(set(arrived)) < 100
    assert len(arrived) > len(set(arrived))
    assert arrived != sorted(arrived)


def test_records_and_outputs_keep_what_they_say() -> None:
    record = Record("b", IDLE, (Row("k1", False, 5), Row("k2", True, 7)))
    assert decode_record(encode_record(record)) == record
    for output in (Output(3, 1, "k1", 2, True, 90), Output(-1, 0, "", 0, False, 77)):
        assert decode_output(encode_output(output)) == output


def test_load_is_in_order_of_time_and_ends_with_marks() -> None:
    load = plan_load(random.Random(1), 3, 40, 2.0, [0.5])
    assert [each.at_s for each in load] == sorted(each.at_s for each in load)
    assert all(not each.record.rows for each in load[-6:])


def test_the_oracle_counts_deletes_and_judges_lateness_in_order() -> None:
    expected = compute(INPUT)
    assert [(output.key, output.count, output.late) for output in expected.outputs] == [
        ("k1", 1, False),
        ("k2", 1, False),
        ("k1", 2, False),
        ("k1", 0, True),
        ("k1", 1, False),
    ]
    assert (expected.counts, expected.watermark) == ({"k1": 1, "k2": 1}, 200)


MARK = Output(-1, 0, "", 0, False, 200)


def test_the_oracle_is_content_with_the_right_outputs() -> None:
    expected = compute(INPUT)
    assert differences(0, expected, [*expected.outputs, MARK]) == []


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda rows: [*rows[1:], MARK], "missing 1×"),
        (lambda rows: [*rows, rows[0], MARK], "not expected 1×"),
        (lambda rows: [rows[2], *rows[:2], *rows[3:], MARK], "key k1"),
        (lambda rows: [*rows[:4], MARK, *rows[4:]], "behind the watermark"),
        (lambda rows: [*rows], "last watermark"),
        (lambda rows: [*rows, MARK, MARK], "watermark 200 after 200"),
    ],
    ids=["missing", "twice", "order", "watermark too early", "no watermark", "watermark twice"],
)
def test_the_oracle_complains(spoil: object, complaint: str) -> None:
    expected = compute(INPUT)
    assert callable(spoil)
    assert any(complaint in text for text in differences(0, expected, spoil(expected.outputs)))


def test_schedules_draw_every_strategy_and_both_positions_of_every_switch() -> None:
    manners = [plan(seed).manner for seed in range(200)]
    assert {manner.strategy for manner in manners} == set(Strategy)
    for switch in ("priority", "look_ahead", "key_filter"):
        assert {getattr(manner, switch) for manner in manners} == {True, False}

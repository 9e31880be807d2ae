"""Files in running stages: each row is in one of them, once, whatever happens to those who write them, and when."""

from __future__ import annotations

import os
import random
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from statemgr.errors import ProducerLostError
from statemgr.store import MemoryBackend
from statemgr.testing.kafka import ClientCrashedError
from tests.harness.files import everything_in, files_in, markers_in, rows_in
from towpath.query import Query, tumbling
from towpath.stage.settings import StageSettings
from towpath.testing import StageDriver
from towpath.testing.process import ReplicaProcess

SCHEMA = {"k": pl.String, "v": pl.Int64, "t": pl.Int64}
SOURCES = 2
WINDOW_MS = 100
AFTER_MS = 50
END_MS = 100_000

FAULTS: dict[str, Callable[[], BaseException]] = {
    "lost": lambda: ProducerLostError("fenced"),
    "crash": lambda: ClientCrashedError("killed"),
}


def row(time: int, key: str | None = "a", value: int = 0) -> dict[str, Any]:
    return {"k": key, "v": value, "t": time}


def by_window(root: Path, **how: Any) -> Query:
    """Rows in directories by key and window."""
    query = Query("app", partitions=2)
    rows = query.source("in", schema=SCHEMA, event_time="t", lag_ms=10, idle_s=1_000.0)
    rows = rows.with_columns(w=pl.col("t") // WINDOW_MS * WINDOW_MS)
    period: dict[str, Any] = {"window": tumbling(WINDOW_MS), "on": "t", "complete_after_ms": AFTER_MS}
    rows.sink_files("files", root, partition_by=("k", "w"), **period, **how)
    return query


def untimed(root: Path, **how: Any) -> Query:
    """Rows in files of one directory."""
    query = Query("app", partitions=2)
    query.source("in", schema=SCHEMA).sink_files("files", root, **how)
    return query


def running(query: Query, **how: Any) -> StageDriver:
    return StageDriver(query, partitions={"in": SOURCES}, **how)


def settle(driver: StageDriver) -> None:
    for _ in range(8):
        driver.run_until_idle()
        driver.advance_time(150)
    driver.run_until_idle()


def pipe(driver: StageDriver, rows: list[dict[str, Any]], partition: int = 0) -> None:
    driver.pipe("in", rows, partition=partition)
    settle(driver)


def end(driver: StageDriver) -> None:
    """Let event time come to the end; the rows that say so stay in open files."""
    for partition in range(SOURCES):
        driver.pipe("in", [row(END_MS, f"end{partition}")], partition=partition)
    settle(driver)


def expected(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    parts = [{**each, "w": str(each["t"] // WINDOW_MS * WINDOW_MS)} for each in rows]
    return Counter(tuple(sorted(each.items())) for each in parts)


def require_exact(driver: StageDriver, root: Path, rows: list[dict[str, Any]]) -> None:
    """Each row is in one file, each file announced once, each directory marked, and nothing else is there."""
    assert rows_in(root) == expected(rows)
    files = files_in(root)
    announced = driver.rows("files")
    assert sorted(each["file"] for each in announced) == files
    assert sum(each["rows"] for each in announced) == len(rows)
    directories = sorted({str(Path(file).parent) for file in files})
    assert markers_in(root) == directories
    complete = driver.rows("files-complete")
    assert sorted((each["k"], each["w"]) for each in complete) == sorted(
        {(each["k"], each["t"] // WINDOW_MS * WINDOW_MS) for each in rows}
    )
    assert (sum(each["files"] for each in complete), sum(each["rows"] for each in complete)) == (len(files), len(rows))
    assert len(everything_in(root)) == len(files) + len(directories)
    waiting = driver.state("source", "files")
    assert {file.part[0] for file in waiting.values()} <= {"end0", "end1"}
    assert len(driver.state("source", "file_rows")) == sum(file.chunks for file in waiting.values())


def test_files_come_when_their_window_is_over_and_the_marker_when_nothing_more_is_in_time(tmp_path):
    root = tmp_path / "out"
    driver = running(by_window(root))
    pipe(driver, [row(10, value=1), row(20, value=2), row(30, "b", 3)])
    pipe(driver, [row(40, value=4)], partition=1)
    assert everything_in(root) == []
    pipe(driver, [row(110, "end")])
    assert sorted(each["rows"] for each in driver.rows("files")) == [1, 2]
    assert markers_in(root) == []
    pipe(driver, [row(165, "end")], partition=1)
    assert sorted(each["rows"] for each in driver.rows("files")) == [1, 1, 2]
    assert markers_in(root) == []
    pipe(driver, [row(160, "end")])
    assert markers_in(root) == ["k=a/w=0", "k=b/w=0"]
    complete = [{"k": "a", "w": 0, "files": 2, "rows": 3}, {"k": "b", "w": 0, "files": 1, "rows": 1}]
    assert sorted(driver.rows("files-complete"), key=lambda each: each["k"]) == complete
    assert rows_in(root) == expected([row(10, value=1), row(20, value=2), row(30, "b", 3), row(40, value=4)])
    driver.close()


def test_a_file_is_closed_when_it_has_so_many_rows(tmp_path):
    driver = running(untimed(tmp_path / "out", roll_rows=3))
    for value in range(7):
        pipe(driver, [row(0, value=value)])
    assert [each["rows"] for each in driver.rows("files")] == [3, 3]
    assert len(files_in(tmp_path / "out")) == 2
    (file,) = driver.state("source", "files").values()
    assert (file.rows, file.chunks, file.closed) == (1, 1, False)
    driver.close()


def test_a_file_is_closed_so_long_after_its_first_row(tmp_path):
    driver = running(untimed(tmp_path / "out", roll_ms=60_000))
    pipe(driver, [row(0, value=1)])
    pipe(driver, [row(0, value=2)])
    assert files_in(tmp_path / "out") == []
    driver.advance_time(60_000)
    settle(driver)
    (file,) = files_in(tmp_path / "out")
    assert pl.read_parquet(tmp_path / "out" / file).rows() == [("a", 1, 0), ("a", 2, 0)]
    assert driver.state("source", "files") == {}
    driver.close()


def test_rows_that_come_when_their_directory_is_complete_are_written_and_count_as_late(tmp_path):
    root = tmp_path / "out"
    driver = running(by_window(root))
    rows = [row(10), row(20, value=1)]
    pipe(driver, rows[:1])
    end(driver)
    pipe(driver, rows[1:])
    assert rows_in(root) == expected(rows)
    assert len(driver.rows("files")) == 2
    assert [(each["files"], each["rows"]) for each in driver.rows("files-complete")] == [(1, 1)]
    metrics = driver.process("source-complete").metrics.registry
    labels = {"stage": "source-complete", "replica": "source-complete-0"}
    assert metrics.get_sample_value("towpath_late_rows_total", labels) == 1
    driver.close()


def test_rows_that_no_directory_can_be_named_for_go_to_the_dead_letters(tmp_path):
    root = tmp_path / "out"
    driver = running(by_window(root))
    rows = [row(10), row(10, "x" * 253)]
    pipe(driver, [*rows, row(10, None), row(10, "x" * 254), row(10, "/" * 85)])
    end(driver)
    require_exact(driver, root, rows)
    letters = [str(letter) for letter in driver.output("app.dead-letter")]
    assert sorted("k is too long" in letter for letter in letters) == [False, True, True]
    driver.close()


def test_a_row_that_no_record_can_hold_goes_to_the_dead_letters(tmp_path):
    query = Query("app", partitions=2)
    noise = b64encode(random.Random(1).randbytes(712_500)).decode()
    query.source("in", schema={"text": pl.String}).sink_files("files", tmp_path / "out", roll_rows=2)
    driver = running(query)
    driver.pipe("in", [{"text": "a"}, {"text": noise}, {"text": "b"}], partition=0)
    settle(driver)
    (file,) = files_in(tmp_path / "out")
    assert pl.read_parquet(tmp_path / "out" / file).rows() == [("a",), ("b",)]
    assert len(driver.output("app.dead-letter")) == 1
    driver.close()


INPUT = [[row(number * 7, "ab"[number % 2], number * 2 + part) for number in range(30)] for part in range(SOURCES)]
ALL = [each for part in INPUT for each in part]


def worked(root: Path, **how: Any) -> StageDriver:
    """A driver whose input lies there in whole, but for the end."""
    driver = running(by_window(root, roll_rows=7), json_batch_records=9, **how)
    for partition in range(SOURCES):
        driver.pipe("in", INPUT[partition], partition=partition)
    return driver


@pytest.mark.parametrize("after", [False, True], ids=["not-applied", "answer-lost"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", ["begin", "produce", "produce_batch", "send_offsets", "flush", "commit"])
@pytest.mark.parametrize("client", ["source-0", "source-complete-0"])
def test_a_failure_in_any_call_of_a_transaction_changes_nothing_that_can_be_read(tmp_path, client, call, fault, after):
    for skip in (0,) if call == "send_offsets" or client != "source-0" else (0, 3):
        root = tmp_path / str(skip)
        driver = worked(root)
        driver.kafka.fail_next(call, FAULTS[fault](), client=client, skip=skip, after=after)
        settle(driver)
        end(driver)
        require_exact(driver, root, ALL)
        driver.close()


class Kill:
    """Kills the process that makes the nth call to the file system, before or after its effect."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, *, after: bool) -> None:
        self.left = number
        self.done = False
        for name in ("fsync", "replace"):
            monkeypatch.setattr(os, name, self._hooked(getattr(os, name), after=after))

    def _hooked(self, call: Callable[..., None], *, after: bool) -> Callable[..., None]:
        def hooked(*given: Any) -> None:
            due, self.left = self.left == 0, self.left - 1
            if due and not after:
                self._die()
            call(*given)
            if due:
                self._die()

        return hooked

    def _die(self) -> None:
        self.done = True
        raise ClientCrashedError("killed")


@pytest.mark.parametrize("lose_stores", [False, True], ids=["stores-kept", "stores-lost"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5, 7, 11, 18])
def test_a_kill_at_any_step_of_writing_changes_nothing_that_can_be_read(
    tmp_path, monkeypatch, number, after, lose_stores
):
    root = tmp_path / "out"
    driver = worked(root)
    kill = Kill(monkeypatch, number, after=after)
    for _ in range(200):
        driver.run_once()
        driver.advance_time(20)
        if kill.done and lose_stores:
            driver.crash("source", lose_stores=True)
            break
    settle(driver)
    end(driver)
    assert kill.done
    require_exact(driver, root, ALL)
    driver.close()


def successor(driver: StageDriver, root: Path) -> ReplicaProcess:
    """A second process of the same replica, on another machine."""
    settings = StageSettings(query="app", stage="source", json_batch_records=9)
    plan = by_window(root, roll_rows=7).plan().stage("source")
    return ReplicaProcess(plan, settings, driver.kafka, driver.clock, MemoryBackend())


@pytest.mark.parametrize("asleep_in", ["fsync", "replace"])
@pytest.mark.parametrize("turns", [1, 3, 30], ids=["fenced", "half-way", "finished"])
@pytest.mark.parametrize("number", [0, 5])
def test_an_owner_that_sleeps_while_it_writes_a_file_adds_nothing_when_it_wakes_up(
    tmp_path, monkeypatch, asleep_in, turns, number
):
    root = tmp_path / "out"
    driver = worked(root)
    other = successor(driver, root)
    call = getattr(os, asleep_in)
    left = [number]

    def asleep(*given: Any) -> None:
        if left[0] == 0:
            monkeypatch.setattr(os, asleep_in, call)
            for _ in range(turns):
                other.turn()
        left[0] -= 1
        call(*given)

    monkeypatch.setattr(os, asleep_in, asleep)
    for _ in range(60):
        driver.run_once()
    assert left[0] < 0
    other.crash()
    settle(driver)
    end(driver)
    require_exact(driver, root, ALL)
    driver.close()


@pytest.mark.parametrize("asleep_in", ["begin", "produce_batch", "produce", "flush", "commit"])
def test_an_owner_that_sleeps_inside_its_transaction_writes_no_file_that_is_not_committed(tmp_path, asleep_in):
    for skip in (0, 1, 3):
        root = tmp_path / str(skip)
        driver = worked(root)
        other = successor(driver, root)
        calls: Counter[str] = Counter()

        def take_over(client: str, call: str, driver=driver, other=other, calls=calls, skip=skip) -> None:
            calls[call] += client == "source-0"
            if (client, call) == ("source-0", asleep_in) and calls[call] == skip + 1:
                driver.kafka.on_call(None)
                for _ in range(30):
                    other.turn()

        driver.kafka.on_call(take_over)
        for _ in range(20):
            driver.run_once()
        driver.kafka.on_call(None)
        other.crash()
        settle(driver)
        end(driver)
        require_exact(driver, root, ALL)
        driver.close()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("harm", ["nothing", "crash", "crash, stores lost", "restart", "scale"])
def test_files_are_exact_whatever_happens_to_replicas(tmp_path, seed, harm):
    chance = random.Random(seed)
    root = tmp_path / "out"
    rows = [
        [row(max(0, n * 7 - chance.randrange(10)), chance.choice("abc"), n * 2 + part) for n in range(150)]
        for part in range(SOURCES)
    ]
    driver = running(by_window(root, roll_rows=chance.choice([3, 10, 1000])), replicas={"source": 2})
    done = [0, 0]
    while min(done) < 150:
        partition = chance.randrange(SOURCES)
        stop = min(150, done[partition] + chance.randrange(1, 40))
        driver.pipe("in", rows[partition][done[partition] : stop], partition=partition)
        done[partition] = stop
        for _ in range(chance.randrange(4)):
            driver.run_once()
        driver.advance_time(chance.randrange(200))
        stage = chance.choice(["source", "source-complete"])
        if chance.random() < 0.3:
            match harm:
                case "crash":
                    driver.crash(stage)
                case "crash, stores lost":
                    driver.crash(stage, lose_stores=True)
                case "restart":
                    driver.restart(stage)
                case "scale":
                    driver.scale("source", chance.randrange(1, 4))
    end(driver)
    require_exact(driver, root, [each for part in rows for each in part])
    driver.close()

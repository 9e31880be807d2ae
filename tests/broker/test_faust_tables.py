"""Real Faust workers with ``store="statemgr://"`` on a real broker: their tables move, no event meets an older one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from statemgr.faust.limits import HOLDER_LIMIT_S
from tests.harness.faust_tables.journal import ASSIGNED, Verdict
from tests.harness.faust_tables.oracle import counts_are, sets_in, windows_in
from tests.harness.faust_tables.running import LIMIT_S, STOCK, Running, running
from tests.harness.faust_tables.workers import Worker, describe
from tests.harness.waiting import wait_for
from towpath.broker import LocalBroker

pytest.importorskip("faust", reason="faust-streaming is not installed: pip install 'statemgr[faust]'")
pytestmark = pytest.mark.slow

RATE = 200
TOKEN = "0123456789abcdef"  # pragma: allowlist secret


def state_is_exact(run: Running) -> bool:
    """Whether the changelog, which any worker would recover, says what the feed says."""
    return counts_are(run.feed.counts, run.application.bootstrap, run.changelog)


def assert_nothing_lost(run: Running) -> Verdict:
    """Once all events are processed: each was, and each met a table that had all earlier ones."""
    verdict = run.drained()
    assert (verdict.lost, verdict.lacking) == (0, 0), verdict
    return verdict


def one_under_load(run: Running, *, under: bool = False) -> tuple[Worker, Worker]:
    """Two workers, of which the first has all partitions under load, and the second has just been started."""
    a, b = run.worker("a", under=under), run.worker("b")
    a.start()
    run.await_all(a)
    run.feed.start(RATE)
    b.start()
    return a, b


def bases(worker: Worker) -> list[str]:
    """What the worker's partitions were made of, newest last."""
    return [line for line in worker.log_lines() if "begins with" in line]


def test_tables_move_to_a_newcomer_and_back(broker: LocalBroker, tmp_path: Path) -> None:
    """1 → 2 → 1 workers under load: every event meets a table with all earlier ones.

    Some come again: Faust forgets in each rebalance what it has not committed yet, with any store.
    """
    (tmp_path / "token").write_text(TOKEN)
    environment = {"TOWPATH_TOKEN_FILE": str(tmp_path / "token")}
    with running(broker.bootstrap, tmp_path, keys=5_000, preload=True, environment=environment) as run:
        a, b = one_under_load(run)
        run.await_some(b)
        run.await_all_state(b)
        b.stop()
        run.await_all(a)
        run.await_all_state(a)
        assert_nothing_lost(run)
        assert state_is_exact(run)
        assert [line for line in bases(b) if "copy of" in line and "0 records behind" in line], b.log()
        said = b.driver()
        assert said["rss_bytes"] > 0
        assert 0 < said["loop_delay_p99_ms"] <= said["loop_delay_max_ms"]
        assert said["longest_wait_s"] < HOLDER_LIMIT_S
        a.stop()


def test_a_newcomer_whose_source_is_killed_reads_the_changelog(broker: LocalBroker, tmp_path: Path) -> None:
    """kill -9 of the former worker and of its state manager while keys are still there: nothing is lost."""
    with running(broker.bootstrap, tmp_path, keys=40_000, preload=True, session_timeout_s=6.0) as run:
        a, b = one_under_load(run)
        wait_for("b has partitions", lambda: ASSIGNED in b.journal()["what"].tolist(), LIMIT_S, describe(run.workers))
        a.kill()
        a.kill_state_manager()
        run.await_all(b)
        assert_nothing_lost(run)
        assert state_is_exact(run)
        assert [line for line in b.log_lines() if "was read again from its beginning" in line], b.log()
        b.stop()


def test_a_killed_worker_s_tables_come_from_its_state_manager_and_a_restarted_one_goes_on_from_its_own_copies(
    broker: LocalBroker, tmp_path: Path
) -> None:
    with running(broker.bootstrap, tmp_path, keys=5_000, preload=True, session_timeout_s=6.0) as run:
        a, b = one_under_load(run)
        run.await_some(b)
        run.await_all_state(b)
        a.kill()
        run.await_all(b)
        run.await_all_state(b)
        assert all("copy of" in line for line in bases(b)), b.log()

        before = len(bases(b))
        b.kill()
        b.start()
        run.await_all(b)
        assert_nothing_lost(run)
        assert state_is_exact(run)
        restarted = bases(b)[before:]
        assert restarted and all("own copy" in line for line in restarted), b.log()
        b.stop()


def test_stock_and_this_store_take_over_from_each_other(broker: LocalBroker, tmp_path: Path) -> None:
    """The changelog is Faust's own: statemgr → rocksdb → statemgr, which goes on from its older copy."""
    with running(broker.bootstrap, tmp_path, keys=300) as run:
        ours, stock = run.worker("a"), run.worker("stock", STOCK)
        for worker in (ours, stock, ours):
            worker.start()
            run.await_all(worker)
            run.feed.send(1_000)
            assert_nothing_lost(run)
            worker.stop()
        assert state_is_exact(run)
        assert [line for line in bases(ours) if "own copy" in line], "\n".join(ours.log_lines())


def test_windows_move(broker: LocalBroker, tmp_path: Path) -> None:
    options = {"window_s": 60.0, "expires_s": 3600.0}
    start_ms = time.time_ns() // 1_000_000 // 60_000 * 60_000
    with running(broker.bootstrap, tmp_path, "windows", keys=100, options=options) as run:
        a, b = run.worker("a"), run.worker("b")
        expected: dict[tuple[int, float], int] = {}
        for number, worker in enumerate((a, b, b)):
            if number < 2:
                worker.start()
            if number == 1:
                wait_for("b is there", lambda: ASSIGNED in b.journal()["what"].tolist(), LIMIT_S, describe(run.workers))
            window_ms = start_ms - 60_000 * (number % 2)
            if number < 2:
                run.feed.restart_numbers()
            else:
                run.feed.counts[:] = [expected.get((key, start_ms / 1000), 0) for key in range(100)]
            run.feed.send(400, timestamp_ms=window_ms)
            assert_nothing_lost(run)
            expected |= {(key, window_ms / 1000): int(n) for key, n in enumerate(run.feed.counts) if n}
        assert windows_in(run.application.bootstrap, run.changelog) == expected
        a.stop()
        b.stop()


def test_sets_move_from_a_worker_whose_state_manager_is_its_parent(broker: LocalBroker, tmp_path: Path) -> None:
    """As in a container: it ends when the other worker has what it needs."""
    with running(broker.bootstrap, tmp_path, "sets", keys=60) as run:
        a, b = one_under_load(run, under=True)
        run.await_some(b)
        a.stop()
        run.await_all(b)
        assert_nothing_lost(run)
        members = {
            key: {n for n in range(1, int(last) + 1) if n % 3 or n == last} for key, last in enumerate(run.feed.counts)
        }
        assert sets_in(run.application.bootstrap, run.changelog) == {key: each for key, each in members.items() if each}
        assert [line for line in bases(b) if "copy of" in line], b.log()
        b.stop()


def test_a_worker_that_was_stopped_for_long_touches_no_table(broker: LocalBroker, tmp_path: Path) -> None:
    """SIGSTOP beyond the session time-out, while another worker takes over from its copy: when it goes on, it ends."""
    with running(broker.bootstrap, tmp_path, keys=5_000, preload=True, session_timeout_s=6.0) as run:
        a, b = one_under_load(run)
        run.await_some(b)
        a.pause()
        run.await_all(b)
        a.resume()
        a.await_end()
        a.start()
        run.await_some(a)
        assert_nothing_lost(run)
        assert [line for line in a.log_lines() if "has stood still" in line], a.log()
        a.stop()
        b.stop()


def test_standbys_take_over_from_what_they_have(broker: LocalBroker, tmp_path: Path) -> None:
    with running(broker.bootstrap, tmp_path, keys=300, standbys=1, session_timeout_s=6.0) as run:
        a, b = run.worker("a"), run.worker("b")
        a.start()
        run.await_all(a)
        run.feed.send(500)
        b.start()
        wait_for("b has standbys", lambda: len(b.driver().get("standby", [])) == 2, LIMIT_S, describe(run.workers))
        run.feed.send(500)
        run.drained()
        a.kill()
        run.await_all(b)
        assert_nothing_lost(run)
        assert state_is_exact(run)
        b.stop()


def test_with_transactions_faust_recovers_from_the_changelog(broker: LocalBroker, tmp_path: Path) -> None:
    """No copy is a base, not even an own one: what is acknowledged may be undone."""
    with running(broker.bootstrap, tmp_path, keys=300, guarantee="exactly_once") as run:
        a = run.worker("a")
        a.start()
        run.await_all(a)
        run.feed.send(300)
        verdict = assert_nothing_lost(run)
        assert verdict.again == 0, verdict
        wait_for("all is in the changelog", lambda: state_is_exact(run), LIMIT_S, describe(run.workers))
        a.stop()
        a.start()
        starts = 2 * run.application.partitions
        wait_for("it has its tables again", lambda: len(bases(a)) == starts, LIMIT_S, describe(run.workers))
        assert all("the changelog: with transactions" in line for line in bases(a)), bases(a)

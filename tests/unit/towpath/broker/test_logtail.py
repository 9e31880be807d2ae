"""What is read out of the end of a broker's log."""

from pathlib import Path

from towpath.broker.logtail import log_size, log_tail, log_text, says_disk_full, says_port_taken


def test_an_absent_log_has_nothing_to_tell(tmp_path: Path) -> None:
    assert log_size(tmp_path / "broker.log") == 0
    assert log_tail(tmp_path / "broker.log") == ""


def test_lines_that_name_an_error_are_told_before_all_others(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("INFO a\nx ERROR went wrong\njava.io.IOException: disk\nINFO shut down\n")
    assert log_tail(log) == "x ERROR went wrong\njava.io.IOException: disk"


def test_a_quiet_log_tells_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("".join(f"INFO {number}\n" for number in range(100)))
    assert log_tail(log).splitlines() == [f"INFO {number}" for number in range(85, 100)]


def test_earlier_runs_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("x ERROR of yesterday\n")
    since = log_size(log)
    with log.open("a") as file:
        file.write("INFO of today\n")
    assert log_tail(log, since) == "INFO of today"


def test_a_log_that_was_rolled_meanwhile_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("INFO short\n")
    assert log_tail(log, since=1_000_000) == "INFO short"


def test_a_huge_log_is_not_read_as_a_whole(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("x ERROR far away\n" + "INFO filler\n" * 20_000 + "INFO last\n")
    assert log_tail(log).endswith("INFO last")
    assert "far away" not in log_tail(log)


def test_the_causes_with_a_remedy_of_their_own_are_recognised() -> None:
    assert says_port_taken("java.net.BindException: Address already in use")
    assert says_disk_full("java.io.IOException: No space left on device")
    assert not says_port_taken("INFO started")
    assert not says_disk_full("INFO started")


def test_the_text_since_a_size_is_given_and_all_of_it_once_the_log_was_rolled(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("yesterday\n")
    since = log_size(log)
    assert log_text(log, since) == ""
    log.write_text("yesterday\ntoday\n")
    assert log_text(log, since) == "today\n"
    log.write_text("new\n")
    assert log_text(log, since) == "new\n"


def test_the_text_of_an_absent_log_is_empty_and_of_a_long_one_at_most_its_end(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    assert log_text(log, 0) == ""
    log.write_text("0123456789")
    assert log_text(log, 2, 3) == "789"
    assert log_text(log, 8, 3) == "89"

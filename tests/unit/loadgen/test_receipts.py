"""Receipts: what one fetch brought is compacted, written whole, and found again."""

from __future__ import annotations

from pathlib import Path

from loadgen.receipts import ReceiptReader, ReceiptWriter, compact


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_one_fetch_gives_one_receipt_per_partition() -> None:
    records = [("t", 0, 5), ("t", 1, 9), ("t", 0, 6), ("t", 0, 8)]
    assert compact(records, 1000.5, 1.0) == [("t", 0, 5, 8, 3, 1000.5, 1.0), ("t", 1, 9, 9, 1, 1000.5, 1.0)]
    assert compact([], 1.0, 1.0) == []


def write(directory: Path, *receipts: tuple[str, int, int, int, int, float, float]) -> None:
    writer = ReceiptWriter(directory)
    writer.add(receipts)
    writer.flush()


def test_a_second_receiver_continues_the_numbering(tmp_path: Path) -> None:
    write(tmp_path, ("t", 0, 0, 9, 10, 1.0, 0.0))
    write(tmp_path, ("t", 0, 10, 12, 2, 2.0, 1.5))
    reader = ReceiptReader(tmp_path)
    reader.refresh()
    reader.refresh()
    assert reader.rows == {"t": 12}
    assert reader.next_offsets("t", {0: 0, 1: 4}) == {0: 13, 1: 4}


def test_only_receipts_that_touch_a_range_are_given(tmp_path: Path) -> None:
    write(tmp_path, ("t", 0, 0, 9, 10, 1.0, 0.0), ("t", 0, 10, 19, 10, 2.0, 0.0), ("t", 1, 0, 5, 6, 2.0, 0.0))
    reader = ReceiptReader(tmp_path)
    reader.refresh()
    found = reader.between({("t", 0): 9}, {("t", 0): 12})
    assert found.column("first").to_pylist() == [0, 10]
    reader.forget({("t", 0): 100, ("t", 1): 100})
    assert reader.between({("t", 0): 0}, {("t", 0): 12}).num_rows == 0
    assert reader.missing({("t", 0): 19}) == []


def test_waiting_ends_when_receipts_arrive_or_time_is_up(tmp_path: Path) -> None:
    reader = ReceiptReader(tmp_path)
    clock = Clock()
    assert not reader.wait_for({("t", 0): 3}, 1.0, clock, clock.sleep)
    assert 1.0 <= clock.now < 1.2

    def arrive(_: float) -> None:
        write(tmp_path, ("t", 0, 0, 3, 4, 1.0, 0.0))

    assert reader.wait_for({("t", 0): 3}, 1.0, clock, arrive)


def test_a_half_written_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".receipts-00000001.parquet.tmp").write_bytes(b"PAR1")
    reader = ReceiptReader(tmp_path)
    reader.refresh()
    assert reader.rows == {}

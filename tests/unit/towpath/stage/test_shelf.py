from __future__ import annotations

import random

import polars as pl
import pytest

from towpath.stage.shelf import FrameShelf, joined


def rows(*values: int) -> pl.DataFrame:
    return pl.DataFrame({"v": list(values)})


def taken(shelf: FrameShelf, tickets: list[int]) -> list[int]:
    return [value for frame in shelf.take(tickets) for value in frame.get_column("v").to_list()]


@pytest.mark.parametrize("seed", range(20))
def test_rows_come_by_their_tickets_in_order_and_once(seed: int) -> None:
    dice = random.Random(seed)
    shelf, kept, next_ticket = FrameShelf(), set[int](), 0
    for _ in range(30):
        count = dice.randrange(4)
        shelf.put(next_ticket, rows(*range(next_ticket, next_ticket + count)))
        kept |= set(range(next_ticket, next_ticket + count))
        next_ticket += count
        wanted = sorted(dice.sample(sorted(kept), dice.randrange(len(kept) + 1)))
        assert taken(shelf, wanted) == wanted
        kept -= set(wanted)
    assert taken(shelf, sorted(kept)) == sorted(kept)


def test_neighbours_with_the_same_columns_become_one_frame() -> None:
    other = pl.DataFrame({"v": [3], "w": [0]})
    assert [frame.height for frame in joined([rows(1), rows(2), other, rows(4)])] == [2, 1, 1]

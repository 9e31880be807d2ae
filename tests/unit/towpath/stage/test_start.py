from __future__ import annotations

import pytest

from statemgr.errors import InputLostError
from statemgr.kafka.ports import Bounds
from statemgr.types import TopicPartition
from towpath.stage.start import Start, decide_start

SOURCE = TopicPartition("bids", 3)
BOUNDS = Bounds(10, 20)


@pytest.mark.parametrize(
    ("recorded", "start_from", "on_input_loss", "expected"),
    [
        pytest.param(None, "earliest", "stop", Start(10), id="new-earliest"),
        pytest.param(None, "latest", "stop", Start(20), id="new-latest"),
        pytest.param(10, "latest", "stop", Start(10), id="at-the-start"),
        pytest.param(15, "latest", "stop", Start(15), id="within"),
        pytest.param(20, "earliest", "stop", Start(20), id="at-the-end"),
        pytest.param(7, "earliest", "skip", Start(10, lost=3), id="lost-skip"),
    ],
)
def test_where_reading_goes_on(recorded: int | None, start_from: str, on_input_loss: str, expected: Start) -> None:
    assert decide_start(SOURCE, recorded, BOUNDS, start_from, on_input_loss) == expected


def test_lost_records_stop_the_task_with_their_number_and_the_remedy() -> None:
    with pytest.raises(InputLostError, match=r"bids\[3\] starts at offset 10, .* 7 .*3 records.*--on-input-loss"):
        decide_start(SOURCE, 7, BOUNDS, "earliest", "stop")


@pytest.mark.parametrize("on_input_loss", ["stop", "skip"])
def test_a_log_that_ends_before_the_recorded_offset_is_another_log(on_input_loss: str) -> None:
    with pytest.raises(InputLostError, match=r"ends at offset 20, but .* read up to 21: .*made anew"):
        decide_start(SOURCE, 21, BOUNDS, "earliest", on_input_loss)

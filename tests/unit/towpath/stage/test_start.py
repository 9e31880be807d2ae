from __future__ import annotations

import pytest

from statemgr.errors import InputLostError
from statemgr.kafka.ports import Bounds
from statemgr.types import TopicPartition
from towpath.stage.start import Recorded, Start, decide_start

SOURCE = TopicPartition("bids", 3)
BOUNDS = Bounds(10, 20)
TOPIC_ID = "made-first"


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
    position = None if recorded is None else Recorded(recorded, TOPIC_ID)
    assert decide_start(SOURCE, position, BOUNDS, TOPIC_ID, start_from, on_input_loss) == expected


def test_lost_records_stop_the_task_with_their_number_and_the_remedy() -> None:
    with pytest.raises(InputLostError, match=r"bids\[3\] starts at offset 10, .* 7 .*3 records.*--on-input-loss"):
        decide_start(SOURCE, Recorded(7), BOUNDS, TOPIC_ID, "earliest", "stop")


@pytest.mark.parametrize("on_input_loss", ["stop", "skip"])
def test_a_log_that_ends_before_the_recorded_offset_lost_records(on_input_loss: str) -> None:
    with pytest.raises(InputLostError, match=r"ends at offset 20, but .* read up to 21: .*lost records"):
        decide_start(SOURCE, Recorded(21, TOPIC_ID), BOUNDS, TOPIC_ID, "earliest", on_input_loss)


@pytest.mark.parametrize("on_input_loss", ["stop", "skip"])
def test_a_topic_made_anew_is_noticed_although_it_has_grown_past_the_recorded_offset(on_input_loss: str) -> None:
    with pytest.raises(InputLostError, match=r"bids\[3\] was made anew .*another name"):
        decide_start(SOURCE, Recorded(15, TOPIC_ID), BOUNDS, "made-second", "earliest", on_input_loss)


def test_an_offset_that_somebody_else_committed_is_taken_as_it_is() -> None:
    assert decide_start(SOURCE, Recorded(12), BOUNDS, TOPIC_ID, "earliest", "stop") == Start(12)

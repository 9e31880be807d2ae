"""Timestamps that are noted of a batch until its commit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.native.messages import Message
from towpath.stage.columns import some_timestamps
from towpath_native.records import Records

MESSAGES = [Message(offset_=number, timestamp_=(1, 1000 + number)) for number in range(10)]


@pytest.mark.parametrize("messages", [MESSAGES, Records.of(MESSAGES)], ids=["objects", "columns"])
@pytest.mark.parametrize(("step", "expected"), [(1, list(range(1000, 1010))), (4, [1000, 1004, 1008])])
def test_every_so_many_records_are_looked_at(messages, step, expected):
    assert some_timestamps(messages, step).tolist() == expected


def test_what_is_noted_keeps_no_batch_in_memory():
    records = Records.of(MESSAGES)
    assert not np.shares_memory(some_timestamps(records, 1), records.timestamp)

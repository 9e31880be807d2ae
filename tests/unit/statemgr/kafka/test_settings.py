"""Client settings: what is fixed, and that the limits fit each other."""

from __future__ import annotations

import pytest

from statemgr.kafka import settings
from statemgr.kafka.confluent import ConfluentKafka


@pytest.mark.parametrize("name", sorted(settings.FIXED))
def test_a_setting_on_which_correctness_rests_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} are fixed by the runtime; remove them"):
        ConfluentKafka("localhost:9092", {name: "x", "security.protocol": "ssl"})


def test_other_settings_reach_every_client() -> None:
    extra = {"security.protocol": "ssl", "linger.ms": "7"}
    consumer = settings.consumer_settings("h:1", "me", extra, read_committed=True, group="g")
    producer = settings.producer_settings("h:1", "me", extra, transactional_id="t")
    assert consumer["security.protocol"] == producer["security.protocol"] == "ssl"
    assert producer["linger.ms"] == "7"
    assert consumer["client.id"] == producer["client.id"] == "me"


def test_a_consumer_never_resets_commits_or_reads_open_transactions_by_itself() -> None:
    made = settings.consumer_settings("h:1", "me", {}, read_committed=True, group="g")
    assert made["auto.offset.reset"] == "error"
    assert made["enable.auto.commit"] is False
    assert made["isolation.level"] == "read_committed"
    peeping = settings.consumer_settings("h:1", "me", {}, read_committed=False, group="g")
    assert peeping["isolation.level"] == "read_uncommitted"


def test_only_a_producer_with_an_id_is_transactional() -> None:
    plain = settings.producer_settings("h:1", "me", {}, transactional_id=None)
    assert "transactional.id" not in plain
    assert plain["enable.idempotence"] is True
    transactional = settings.producer_settings("h:1", "me", {}, transactional_id="t")
    assert transactional["transaction.timeout.ms"] == settings.TRANSACTION_TIMEOUT_MS
    assert transactional["partitioner"] == "murmur2_random"


def test_a_record_that_is_sure_to_pass_passes_the_client_and_the_default_topic() -> None:
    topic_default, batch_header = 1_048_588, 61
    room_for_header_lengths = 264
    sure = settings.MAX_RECORD_BYTES + settings.RECORD_OVERHEAD_BYTES + room_for_header_lengths
    assert sure <= settings.CLIENT_RECORD_BYTES
    assert settings.CLIENT_RECORD_BYTES + batch_header <= topic_default


def test_a_request_is_given_up_before_the_transaction_is() -> None:
    made = settings.producer_settings("h:1", "me", {}, transactional_id="t")
    assert int(str(made["socket.timeout.ms"])) * 2 <= settings.TRANSACTION_TIMEOUT_MS


def test_the_runtime_calls_of_the_client_are_not_logged_unless_asked_for() -> None:
    assert not settings.log.isEnabledFor(50)

"""Every limit of the driver for Faust, with its arithmetic."""

from __future__ import annotations

from statemgr.migration.limits import MigrationLimits

HOLDER_LIMIT_S = 1.0
"""A table waits no longer than this for a state manager that does not answer; then the changelog is read instead.

A healthy one needs 1 to 5 ms. The whole worker stands still meanwhile, because Faust reads its tables synchronously."""

LIMITS = MigrationLimits(patience_s=HOLDER_LIMIT_S)
"""Of a migration; the deadline of one look-up is a quarter of :data:`HOLDER_LIMIT_S`."""

REBUILD_LIMIT_S = 600.0
"""For reading a changelog partition again while the worker stands still: 30 M records at 50,000 a second. Then the
worker gives up, and leaves the event for the next; below ``broker_max_poll_interval`` (1,000 s), so that it is still a
member."""

WAIT_PAUSE_S = 0.0005
"""Between two looks for an answer that a table waits for: below the time of the fastest one."""

FLUSH_S = 0.05
"""Acknowledged changes are written to the store so often: a newcomer waits for the last batch at most, and one batch
costs 0.1 ms where single writes would cost 5 µs for each event."""

FLUSH_CHANGES = 2_000
"""Acknowledged changes that are written at once: some 5 ms."""

ACKS_LIMIT_S = 2.0
"""For the acknowledgements that are on their way when partitions are revoked: Faust has flushed its producer by
then."""

INSTALL_BUDGET_S = 0.004
"""Time for arriving bins in one turn of the event loop; a chunk of 256 KiB takes 3 ms."""

TURN_S = 0.005
"""Between two looks at what has arrived, while anything is on its way."""

PACING = 0.25
"""Part of the worker's time that arriving bins may take."""

OWN_TAIL_RECORDS = 5_000
"""An own copy is preferred to another worker's while its tail is at most this long: Faust reads 30,000 records a
second, so 0.2 s, and nothing has to be fetched afterwards."""

DESCRIBE_S = 0.25
"""For a copy to reach the end of its changelog: its worker writes what was acknowledged every :data:`FLUSH_S`."""

KAFKA_LIMIT_S = 10.0
"""For one question to Kafka: the ends of the changelogs, the records that prove a copy, the newest announcements."""

HOT_KEYS = 4_096
"""Keys that are sent first: some 200 KiB."""

NOTED_KEYS = 16_384
"""Uses of keys that are remembered for each partition to find the hottest."""

HOT_S = 10.0
"""Between two notes of the hottest keys in the store, which count if the worker is killed: 2 ms each."""

TIDY_S = 2.0
"""Between two looks for copies that nobody needs any more."""

QUIET_S = 15.0
"""A state manager without its worker leaves when nobody has asked for so long: a newcomer that lacks state asks for it
several times a second."""

LINGER_S = 600.0
"""And at this time at the latest."""

START_LIMIT_S = 15.0
"""For a state manager to listen after its start: a second on an idle machine."""

STATE_CACHE_BYTES = 128 * 1024 * 1024
"""Block cache and memtables of all tables of a worker together; Faust's own stores take 2 GiB for each partition."""

STATE_WRITE_BUFFER_BYTES = 32 * 1024 * 1024
"""Part of it that memtables may take."""

"""What Kafka says of the changelogs and of the announcements: the questions that a rebalance has to ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress

import aiokafka
from aiokafka import TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from statemgr.decisions import DEFAULT_DELETE_RETENTION_MS, DELETE_RETENTION_CONFIG
from statemgr.faust.connection import Connection
from statemgr.faust.decide import Log, witness
from statemgr.faust.limits import KAFKA_LIMIT_S
from statemgr.faust.records import Directory
from statemgr.types import TaskId

log = logging.getLogger(__name__)

_NOT_HAD = (KafkaError, OSError, asyncio.TimeoutError, ValueError)
"""What Kafka does not tell in time, or at all, is not known: then Faust recovers."""

LOOK_S = 0.02
"""Between two looks whether the reading has begun."""

RETRY_S = 1.0
"""Between two tries of a client that could not be started, or whose reading has failed."""


class Changelogs:
    """Asks about changelog partitions.

    Args:
        connection: makes the client.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._consumer: aiokafka.AIOKafkaConsumer | None = None
        self._retention: dict[str, int] = {}
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Connect; what fails is tried again when something is asked."""
        with suppress(*_NOT_HAD):
            await self._connected()

    async def stop(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            await self._consumer.stop()
            self._consumer = None

    async def bounds(self, tasks: Iterable[TaskId]) -> dict[TaskId, Log]:
        """Start and end of each partition; those of which nothing is known are missing."""
        wanted = [TopicPartition(*each) for each in tasks]
        if not wanted:
            return {}
        try:
            async with self._lock, asyncio.timeout(KAFKA_LIMIT_S):
                consumer = await self._connected()
                starts, ends = await asyncio.gather(consumer.beginning_offsets(wanted), consumer.end_offsets(wanted))
        except _NOT_HAD as error:
            log.warning("the bounds of the changelogs are not known: %s: %s", type(error).__name__, error)
            return {}
        await self._learn_retentions({each.topic for each in wanted})
        return {
            TaskId(*each): Log(starts[each], ends[each], self._retention.get(each.topic))
            for each in wanted
            if each in starts and each in ends
        }

    async def witnesses(self, places: Mapping[TaskId, int]) -> dict[TaskId, str]:
        """What the log has at these offsets; partitions whose record there is gone, or is not told, are missing."""
        if not places:
            return {}
        wanted = {TopicPartition(*task): offset for task, offset in places.items()}
        found: dict[TaskId, str] = {}
        try:
            async with self._lock, asyncio.timeout(KAFKA_LIMIT_S):
                consumer = await self._connected()
                consumer.assign(list(wanted))
                for at, offset in wanted.items():
                    consumer.seek(at, offset)
                waited = set(wanted)
                while waited:
                    answer = await consumer.getmany(*waited, timeout_ms=500, max_records=len(waited))
                    for at, records in answer.items():
                        waited.discard(at)
                        if records[0].offset == wanted[at]:
                            found[TaskId(*at)] = witness(records[0].timestamp, records[0].key, records[0].value)
        except _NOT_HAD as error:
            log.warning("the changelogs can't be read: %s: %s", type(error).__name__, error)
        return found

    async def _connected(self) -> aiokafka.AIOKafkaConsumer:
        if self._consumer is None:
            consumer = self._connection.consumer()
            try:
                await consumer.start()
            except BaseException:
                await consumer.stop()
                raise
            self._consumer = consumer
        return self._consumer

    async def _learn_retentions(self, topics: set[str]) -> None:
        """How long deletes stay in these topics; asked once for each."""
        unknown = sorted(topics - self._retention.keys())
        if not unknown:
            return
        admin = self._connection.admin()
        try:
            async with asyncio.timeout(KAFKA_LIMIT_S):
                await admin.start()
                resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in unknown]
                for answer in await admin.describe_configs(resources):
                    for resource in answer.resources:
                        self._retention[resource[3]] = _retention_of(resource[4])
        except _NOT_HAD as error:
            log.warning("how long deletes stay in %s is not known: %s", ", ".join(unknown), error)
        finally:
            await admin.close()


class Announcements:
    """Reads the topic of announcements, and goes on reading it.

    Args:
        connection: makes the client.
        topic: its name.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        self.directory = Directory()
        self._connection = connection
        self._at = TopicPartition(topic, 0)
        self._consumer: aiokafka.AIOKafkaConsumer | None = None
        self._read = asyncio.Condition()
        self._position = 0
        self._failed = False

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            consumer = self._connection.consumer()
            try:
                await consumer.start()
                consumer.assign([self._at])
                consumer.seek(self._at, self._position)
                self._consumer = consumer
                await self._follow(consumer)
            except _NOT_HAD as error:
                self._failed = True
                log.warning("the announcements can't be read: %s: %s", type(error).__name__, error)
            finally:
                self._consumer = None
                await consumer.stop()
            await asyncio.sleep(RETRY_S)

    async def up_to_date(self) -> bool:
        """Wait until all that is announced now is read; False: it was not within the limit."""
        try:
            async with asyncio.timeout(KAFKA_LIMIT_S):
                while self._consumer is None:
                    if self._failed:  # it has been said, and is tried again beside
                        return False
                    await asyncio.sleep(LOOK_S)
                end = (await self._consumer.end_offsets([self._at]))[self._at]
                async with self._read:
                    await self._read.wait_for(lambda: self._position >= end)
        except _NOT_HAD as error:
            log.warning("the newest announcements are not known: %s: %s", type(error).__name__, error)
            return False
        return True

    async def _follow(self, consumer: aiokafka.AIOKafkaConsumer) -> None:
        while True:
            answer = await consumer.getmany(self._at, timeout_ms=1000)
            records = answer.get(self._at, [])
            for record in records:
                self.directory.read(record.value)
            position = await consumer.position(self._at)
            self._failed = False
            if position != self._position:
                async with self._read:
                    self._position = position
                    self._read.notify_all()


def _retention_of(entries: Iterable[tuple[object, ...]]) -> int:
    found = next((entry[1] for entry in entries if entry[0] == DELETE_RETENTION_CONFIG), None)
    return int(found) if isinstance(found, str) else DEFAULT_DELETE_RETENTION_MS

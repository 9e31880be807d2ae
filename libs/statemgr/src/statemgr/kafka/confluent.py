"""The Kafka edge by librdkafka (``confluent-kafka``): makes the clients of one cluster."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from statemgr.kafka.admin import ConfluentAdmin
from statemgr.kafka.consumer import ConfluentConsumer
from statemgr.kafka.producer import ConfluentProducer
from statemgr.kafka.requests import Requests
from statemgr.kafka.settings import READERS, check_extra, common_settings, consumer_settings, producer_settings


class ConfluentKafka:
    """Implements :class:`~statemgr.kafka.ports.Kafka`.

    Consumers and administration share one client for their queries, made at first use.

    Args:
        bootstrap: ``host:port`` of one or more brokers, separated by commas.
        extra: further librdkafka settings for every client, for example ``security.protocol``.

    Raises:
        ValueError: ``extra`` names a setting on which correctness rests.
    """

    def __init__(self, bootstrap: str, extra: Mapping[str, str] | None = None) -> None:
        self.bootstrap = bootstrap
        self._extra = dict(extra or {})
        check_extra(self._extra)
        self._lock = threading.Lock()
        self._requests: Requests | None = None

    def consumer(self, *, read_committed: bool = True, columns: bool = False, name: str) -> ConfluentConsumer:
        """A new manually assigned consumer; ``name`` shows up as client id.

        With ``columns`` its records are :class:`towpath_native.records.Records`, where these can be had.
        """
        settings = consumer_settings(self.bootstrap, name, self._extra, read_committed=read_committed, group=READERS)
        return ConfluentConsumer(settings, self._shared_requests(), columns=columns)

    def producer(self, *, transactional_id: str | None, name: str) -> ConfluentProducer:
        """A new producer instance; idempotent, and transactional if an id is given."""
        settings = producer_settings(self.bootstrap, name, self._extra, transactional_id=transactional_id)
        group_settings = common_settings(self.bootstrap, name, self._extra)
        return ConfluentProducer(settings, group_settings=group_settings, bootstrap=self.bootstrap)

    def admin(self) -> ConfluentAdmin:
        """Administration by the shared client."""
        return ConfluentAdmin(self._shared_requests())

    def ping(self, timeout_s: float) -> None:
        """Check that a broker answers.

        Raises:
            KafkaUnavailableError: no answer before the deadline; names the address.
        """
        requests = self._shared_requests()
        requests.repeat("connecting", timeout_s, lambda left: requests.client.list_topics(timeout=left))

    def _shared_requests(self) -> Requests:
        with self._lock:
            if self._requests is None:
                self._requests = Requests(
                    common_settings(self.bootstrap, "statemgr-requests", self._extra), self.bootstrap
                )
            return self._requests

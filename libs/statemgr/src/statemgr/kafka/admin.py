# ruff: noqa: SLF001 - codes of errors that arise in the client itself begin with an underscore
"""Topic administration by librdkafka."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from statemgr.errors import KafkaUnavailableError, StateError, TopicMismatchError
from statemgr.kafka.classify import Reaction, Source, classify
from statemgr.kafka.ports import TopicInfo, TopicSpec
from statemgr.kafka.requests import PAUSE_S, Requests, named, settle

_IMPOSSIBLE = frozenset(
    {
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_REPLICA_ASSIGNMENT,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_REQUEST,
        KafkaError._INVALID_ARG,
    }
)


class ConfluentAdmin:
    """Implements :class:`~statemgr.kafka.ports.Admin`."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def describe(self, names: Sequence[str], timeout_s: float) -> dict[str, TopicInfo]:
        """What exists among these names; a missing topic is absent from the answer.

        Raises:
            KafkaUnavailableError: no answer before the deadline.
        """
        if not names:
            return {}
        return self._requests.repeat("describing topics", timeout_s, lambda left: self._describe(names, left))

    def _describe(self, names: Sequence[str], timeout_s: float) -> dict[str, TopicInfo]:
        client = self._requests.client
        asked = list(dict.fromkeys(names))
        topics, errors = settle(client.describe_topics(TopicCollection(asked), request_timeout=timeout_s), timeout_s)
        _raise_unless_missing(errors)
        # A partition without a leader is not usable yet: the topic counts as absent until it is.
        ready = [name for name, topic in topics.items() if all(part.leader is not None for part in topic.partitions)]
        if not ready:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in ready]
        configs, errors_by_resource = settle(client.describe_configs(resources, request_timeout=timeout_s), timeout_s)
        _raise_unless_missing({resource.name: error for resource, error in errors_by_resource.items()})
        return {
            resource.name: TopicInfo(
                name=resource.name,
                partitions=len(topics[resource.name].partitions),
                topic_id=str(topics[resource.name].topic_id),
                config={key: entry.value for key, entry in config.items() if entry.value is not None},
            )
            for resource, config in configs.items()
        }

    def create(self, specs: Sequence[TopicSpec], replication: int, timeout_s: float) -> None:
        """Create topics and wait until every broker asked can see them; existing ones are left as they are.

        Raises:
            TopicMismatchError: the broker can't make such a topic; names the topic and the broker's reason.
            KafkaUnavailableError: no answer, or not visible before the deadline.
        """
        deadline = time.monotonic() + timeout_s
        if not specs:
            return
        self._requests.repeat("creating topics", timeout_s, lambda left: self._create(specs, replication, left))
        self._await_visible([spec.name for spec in specs], deadline, timeout_s)

    def _create(self, specs: Sequence[TopicSpec], replication: int, timeout_s: float) -> None:
        topics = [
            NewTopic(
                spec.name, num_partitions=spec.partitions, replication_factor=replication, config=dict(spec.config)
            )
            for spec in specs
        ]
        client = self._requests.client
        futures = client.create_topics(topics, operation_timeout=timeout_s, request_timeout=timeout_s)
        _, errors = settle(futures, timeout_s)
        for name, error in errors.items():
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            if classify(error, Source.REQUEST) is Reaction.RETRY:
                raise KafkaException(error)
            raise self._creation_error(name, error)

    def _creation_error(self, name: str, error: KafkaError) -> StateError:
        if error.code() in _IMPOSSIBLE:
            return TopicMismatchError(
                f"topic {name} can't be created as asked: {error.str()}; "
                "correct its partitions, replication or settings"
            )
        return named(f"creating topic {name}", error, self._requests.bootstrap)

    def _await_visible(self, names: Sequence[str], deadline: float, timeout_s: float) -> None:
        while True:
            left = deadline - time.monotonic()
            missing = sorted(set(names) - self.describe(names, max(left, PAUSE_S)).keys())
            if not missing:
                return
            if left <= 0:
                raise KafkaUnavailableError(
                    f"topics {', '.join(missing)} were created but are not visible with leaders after {timeout_s:g} s "
                    f"at {self._requests.bootstrap}; check the brokers' health"
                )
            time.sleep(PAUSE_S)

    def close(self) -> None:
        """The client is shared and freed with the last user."""


def _raise_unless_missing(errors: dict[str, KafkaError]) -> None:
    for error in errors.values():
        if classify(error, Source.REQUEST) is not Reaction.MISSING:
            raise KafkaException(error)

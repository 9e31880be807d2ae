"""What becomes of the errors of a producer's calls: the one rule of R4."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn, TypeVar

from confluent_kafka import KafkaError, KafkaException

from statemgr.errors import ProducerLostError, RecordTooLargeError, RetryableKafkaError, StateError
from statemgr.kafka.classify import Reaction, Source, classify

T = TypeVar("T")


class Guard:
    """Runs the calls of one producer instance, names their errors, and remembers that the instance is lost."""

    def __init__(self) -> None:
        self.lost: str | None = None
        self._failure: tuple[KafkaError, str] | None = None

    def lose(self, text: str) -> ProducerLostError:
        """End the instance; returns the error to be raised."""
        self.lost = text
        return ProducerLostError(text)

    def fail(self, error: KafkaError, topic: str) -> None:
        """Remember a failed delivery; the next :meth:`check` raises it."""
        if self._failure is None:
            self._failure = (error, topic)

    def forget_failure(self) -> None:
        """The transaction was aborted: failed deliveries don't count any more."""
        self._failure = None

    def call(self, what: str, call: Callable[..., T], *arguments: object, **options: object) -> T:
        """Run a client call and name its errors."""
        try:
            return call(*arguments, **options)
        except KafkaException as error:
            self.refuse(what, error.args[0], error)
        except BufferError:
            raise
        except:  # noqa: E722
            # When a fatal error and a delivery report are served by the same poll, the client's binding leaves behind
            # an "exception" of a class that is none (a bare KafkaError), or a SystemError around it. Only a bare
            # except catches the former.
            strange: object = sys.exc_info()[1]
            if isinstance(strange, BaseException) and not isinstance(strange, SystemError):
                raise
            raised = self.lose(f"{what}: {_innermost(strange)}")
        raise raised

    def refuse(
        self, what: str, error: KafkaError, cause: Exception | None = None, *, at_broker: bool = False
    ) -> NoReturn:
        """Raise what an error calls for.

        Args:
            what: the call.
            error: of the client.
            cause: the exception that carried it.
            at_broker: whether a record was refused after it had been queued.
        """
        text = f"{what}: {error.name()}: {error.str()}"
        raised: StateError
        match classify(error, Source.PRODUCER):
            case Reaction.RETRY if not at_broker:
                raised = RetryableKafkaError(text)
            case Reaction.TOO_LARGE:
                raised = RecordTooLargeError(text)
                if at_broker or error.txn_requires_abort():
                    self.lost = text
            case _:
                raised = self.lose(text)
        raise raised from cause

    def check(self, *, after_failure: bool = False) -> None:
        """Raise if the instance is lost, or a delivery has failed since (unless ``after_failure``)."""
        if self.lost is not None:
            raise ProducerLostError(self.lost)
        if self._failure is not None and not after_failure:
            error, topic = self._failure
            self.refuse(f"delivery to {topic}", error, at_broker=True)


def _innermost(strange: object) -> object:
    """The client's error under the wrapping."""
    while isinstance(strange, BaseException) and strange.__cause__ is not None:
        strange = strange.__cause__
    return strange

"""A schema registry, asked with patience: what it answers, and when it may be asked again.

Two things look alike and must not be mixed up. A registry that says "no such schema" has judged a record, which then is
poison. One that does not answer, refuses this client, or is no registry at all has judged nothing: whatever needs it
waits, and nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

import structlog
from confluent_kafka.schema_registry import RegisteredSchema, Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from statemgr.clock import Clock
from towpath.errors import RegistryUnavailableError, StageStoppedError
from towpath.formats.framing import UnknownSchemaError

log = structlog.get_logger()

REQUEST_TIMEOUT_S = 3.0
"""Longest wait for a part of an answer, in which the stage does nothing else: well below the 10 s of a transaction."""

FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 10.0
"""Between two questions while there is no answer: doubled from the first to the last."""

UNKNOWN_S = 10.0
"""So long a schema that the registry did not have is not asked for again: a topic may be full of them."""

MOST_UNKNOWN = 10_000
"""Ids that are remembered as unknown: about a megabyte."""

_NO_SUCH = frozenset({40401, 40402, 40403})
"""The registry's codes for a subject, a version, a schema that it does not have."""

_REFUSALS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_OBJECTIONS = frozenset({HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})
"""By which a registry says that a schema is incompatible with earlier ones, or none."""

Answer = TypeVar("Answer")


class Registry:
    """One registry, for one replica; single-threaded.

    Args:
        client: asks it, once per question.
        url: for messages; without credentials.
        clock: time.
    """

    def __init__(self, client: SchemaRegistryClient, url: str, clock: Clock) -> None:
        self.client = client
        self.url = url
        self._clock = clock
        self._unknown: dict[int, float] = {}
        self._pause_s = FIRST_PAUSE_S
        self._down: RegistryUnavailableError | None = None

    def check(self) -> None:
        """Ask for nothing in particular.

        Raises:
            RegistryUnavailableError: there is no answer.
        """
        self._ask(self.client.get_schema_types)

    def schema(self, schema_id: int, form: str | None = None) -> Schema:
        """The schema of an id.

        Args:
            schema_id: from a record.
            form: ``serialized`` for a Protobuf file as a descriptor, where the registry can give it.

        Raises:
            UnknownSchemaError: the registry has none.
            RegistryUnavailableError: there is no answer.
        """
        unknown_s = self._unknown.get(schema_id)
        if unknown_s is not None and self._clock.monotonic_s() - unknown_s < UNKNOWN_S:
            raise UnknownSchemaError(f"the schema registry at {self.url} has no schema {schema_id}")
        try:
            return self._ask(lambda: self.client.get_schema(schema_id, fmt=form))
        except UnknownSchemaError as error:
            if len(self._unknown) >= MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown[schema_id] = self._clock.monotonic_s()
            raise UnknownSchemaError(f"the schema registry at {self.url} has no schema {schema_id}") from error

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """A version of a subject's schema, to which another schema refers.

        Raises:
            UnknownSchemaError: there is none.
            RegistryUnavailableError: there is no answer.
        """
        return self._ask(lambda: self.client.get_version(subject, version, deleted=True))

    def publish(self, subject: str, write: Callable[[], object], *, register: bool) -> None:
        """Let a serialiser make its schema known, by a first record that goes nowhere.

        Args:
            subject: of the schema, for messages.
            write: writes the record.
            register: whether the serialiser registers the schema, or only looks it up.

        Raises:
            StageStoppedError: the registry does not take the schema, or does not have it.
            RegistryUnavailableError: there is no answer.
        """
        try:
            self._ask(write, may_object=True)
        except UnknownSchemaError as error:
            remedy = "" if register else "; register it, or set schema_registry_register=true"
            raise StageStoppedError(f"the schema registry at {self.url}, {subject}: {error}{remedy}") from error
        except SchemaRegistryError as error:
            raise StageStoppedError(
                f"the schema registry at {self.url} does not take the schema of {subject}: {error}; change the columns "
                "so that readers of earlier records can go on, or write to another topic"
            ) from error

    def _ask(self, question: Callable[[], Answer], *, may_object: bool = False) -> Answer:
        """Put a question unless there was no answer just now.

        Args:
            question: asks once.
            may_object: whether the registry may find fault with what it is asked to take.

        Raises:
            UnknownSchemaError: what is asked for does not exist.
            SchemaRegistryError: the registry objects.
            RegistryUnavailableError: there is no answer.
        """
        if self._down is not None and self._clock.monotonic_s() < self._down.again_s:
            raise self._down.with_traceback(None)
        try:
            answer = question()
        except SchemaRegistryError as error:
            if error.http_status_code == HTTPStatus.NOT_FOUND and error.error_code in _NO_SUCH:
                self._answered()
                raise UnknownSchemaError(error.error_message) from error
            if may_object and error.http_status_code in _OBJECTIONS:
                self._answered()
                raise
            raise self._unavailable(error, refused=error.http_status_code in _REFUSALS) from error
        except Exception as error:  # whatever an HTTP client raises: no record is to blame
            raise self._unavailable(error) from error
        self._answered()
        return answer

    def _answered(self) -> None:
        if self._down is not None:
            log.info("the schema registry answers again", url=self.url)
        self._down, self._pause_s = None, FIRST_PAUSE_S

    def _unavailable(self, cause: Exception, *, refused: bool = False) -> RegistryUnavailableError:
        text = " ".join(str(cause).split()) or type(cause).__name__
        what = "refuses this client" if refused else "does not answer as one"
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LAST_PAUSE_S)
        self._down = RegistryUnavailableError(
            f"the schema registry at {self.url} {what}: {text}", self._clock.monotonic_s() + pause_s, refused=refused
        )
        log.warning("the schema registry can't be asked, what needs it waits", cause=str(self._down), again_s=pause_s)
        return self._down

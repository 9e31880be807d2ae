"""Every error of the state library: one exception = one situation = one reaction.

::

    StateError
    ├── RetryableKafkaError      retry the same call until its deadline
    ├── ProducerLostError        drop all tasks and caches, new producer instance, init, read the log (rule R4)
    ├── KafkaUnavailableError    (TimeoutError) no broker answered: at the first start stop by name; later retry
    ├── TopicMismatchError       (ValueError) a topic has other settings, or was made anew: stop with the remedy
    ├── TopicMissingError        (LookupError) a topic does not exist and may not be created: stop with the remedy
    ├── InputLostError        (LookupError) the input lost the task's restart point: stop, or skip by setting
    ├── RestoreStalledError      (TimeoutError) a log read made no progress in time: that task waits; else stop
    ├── IncompatibleStoreError   (ValueError) a store directory was written with other options: stop
    ├── CorruptStoreError        (OSError) a store cannot be read: rebuild it from the changelog
    ├── StoreWriteError          (OSError) a store could not be written: stop that task
    ├── StoreLockedError         (TimeoutError) another holder did not free a store's lock before the deadline: stop
    ├── StoreClosedError         (RuntimeError) a store was used after close: a fault of the caller
    ├── OpenScanError            (RuntimeError) a store was closed under a live scan: a fault of the caller
    ├── SecurityError            (ValueError) credentials are missing or wrong: stop at start with the remedy, exit 2
    ├── CodecError               (ValueError) bytes that are not what the schema says: dead letter; control data: stop
    ├── HolderUnavailableError   (TimeoutError) no answer from a state manager in time: ask again, then another base
    ├── StaleRequestError        (PermissionError) a state manager does not see us as owner: read the log, ask again
    ├── NoSuchCopyError          (LookupError) a holder has no such copy, or none that is whole: another base
    ├── StaleBaseError           (LookupError) a base is too old for what the log still has: begin with another
    ├── MissingStateError        (LookupError) a key was read before it was fetched: a fault of the caller
    ├── RecordTooLargeError      (ValueError) a record exceeds the topic's limit: dead letter before produce
    └── StopRequestedError       the process was asked to stop during a wait: unwind and exit 0
"""

from __future__ import annotations

from typing import ClassVar

from statemgr.types import TaskId


class StateError(Exception):
    """Base of all errors of this library."""


class RetryableKafkaError(StateError):
    """The broker or client says that the same call may succeed when repeated."""


class ProducerLostError(StateError):
    """The transactional producer can't be used any more: fenced, fatal, or no definite answer."""


class KafkaUnavailableError(StateError, TimeoutError):
    """No broker answered before the deadline."""


class KafkaRefusedError(KafkaUnavailableError):
    """A broker answered, and refuses this client: asking again does not help."""


class TopicMismatchError(StateError, ValueError):
    """A topic exists with settings that would break correctness, or was made anew while it was read."""


class TopicMissingError(StateError, LookupError):
    """A topic that must exist does not."""


class InputLostError(StateError, LookupError):
    """The input log no longer holds the records from which a task must go on."""


class RestoreStalledError(StateError, TimeoutError):
    """Reading a changelog made no progress before its deadline."""


class IncompatibleStoreError(StateError, ValueError):
    """A store directory was written with another format or other options."""


class CorruptStoreError(StateError, OSError):
    """A store exists but cannot be read.

    The reaction is ``backend.destroy(error.task, error.epoch)`` once the store is closed, then a full restore.

    Attributes:
        task: whose store it is.
        epoch: the store's epoch.
    """

    def __init__(self, message: str, task: TaskId, epoch: int) -> None:
        super().__init__(message)
        self.task = task
        self.epoch = epoch


class StoreWriteError(StateError, OSError):
    """A write batch could not be applied to a store."""


class StoreLockedError(StateError, TimeoutError):
    """A store's directory stayed locked by another holder until the deadline."""


class StoreClosedError(StateError, RuntimeError):
    """A store was used after it was closed."""


class OpenScanError(StateError, RuntimeError):
    """A store was asked to close while a scan of it was live."""


class CodecError(StateError, ValueError):
    """Bytes that do not decode to what the schema says."""


class SecurityError(StateError, ValueError):
    """Credentials are missing, or can't be used; the text says which, and holds no secret."""

    exit_status: ClassVar[int] = 2
    """Status of a command that ends with this error: its call or environment has to be changed first."""


class RecordTooLargeError(StateError, ValueError):
    """A record is larger than its topic accepts."""


class StopRequestedError(StateError):
    """The process was asked to stop while it waited."""


class HolderUnavailableError(StateError, TimeoutError):
    """A state manager did not answer before the deadline, or is not there."""


class StaleRequestError(StateError, PermissionError):
    """A state manager refuses, because by its view of the control log the asker is not the task's owner.

    Attributes:
        later: the state manager's view is behind the asker's: asking again soon may help.
    """

    def __init__(self, message: str, *, later: bool) -> None:
        super().__init__(message)
        self.later = later


class NoSuchCopyError(StateError, LookupError):
    """A holder has no store of that task and epoch."""


class StaleBaseError(StateError, LookupError):
    """A store is no valid base any more: the log lacks what follows it, or tombstones may have left it unseen."""


class MissingStateError(StateError, LookupError):
    """A key was read whose state is still at another holder."""

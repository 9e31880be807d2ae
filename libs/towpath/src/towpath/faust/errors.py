"""What can be wrong with a program in Faust's idiom.

::

    QueryError
    └── FaustProgramError                 the program can't be planned
        └── UnsupportedFaustFeatureError  (NotImplementedError) Faust has it, this package does not: what to use instead
    ValidationError                       (ValueError) a record's fields do not have their types
    NoCurrentEventError                   (RuntimeError) a table or topic is used outside the handling of an event
    AgentStuckError                       (TimeoutError) an agent does not finish an event: the stage stops
"""

from __future__ import annotations

from towpath.query.errors import QueryError


class FaustProgramError(QueryError):
    """The program can't be planned."""


class UnsupportedFaustFeatureError(FaustProgramError, NotImplementedError):
    """A feature of Faust that this package does not have."""

    def __init__(self, feature: str, instead: str) -> None:
        """``feature`` as it is written in a program; ``instead``: what to do, as an imperative."""
        super().__init__(f"{feature} is not supported by towpath.faust: {instead}")
        self.feature = feature
        self.instead = instead


class ValidationError(ValueError):
    """A record's fields do not have their types."""


class NoCurrentEventError(RuntimeError):
    """There is no event to whose task and transaction the operation could belong."""


class AgentStuckError(TimeoutError):
    """An agent did not finish an event before the deadline."""

"""Names that people give: applications, stages, topics."""

from __future__ import annotations

import re

from towpath.query.errors import GraphError

MAX_TOPIC_CHARACTERS = 249
"""Kafka's limit for a topic name."""

MAX_NAME_CHARACTERS = 80
"""Application and stage: the longest topic, ``app.stage-stage``, is then 3 · 80 + 2 = 242 characters."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")


def check_app(name: str, partitions: int) -> None:
    """Check an application's name and its default partition count.

    Raises:
        GraphError: saying what a name may be.
    """
    _check_name("application", name)
    if partitions < 1:
        raise GraphError(f"application {name!r}: partitions={partitions}, but a topic has at least one")


def check_stage(name: str) -> None:
    """Check a stage's name.

    Raises:
        GraphError: saying what a name may be.
    """
    _check_name("stage", name)


def check_topic(name: str) -> None:
    """Check a topic's name.

    Raises:
        GraphError: saying what a name may be.
    """
    if name in (".", "..") or len(name) > MAX_TOPIC_CHARACTERS or not _TOPIC.fullmatch(name):
        raise GraphError(
            f"{name!r} is no topic name: letters, digits, '.', '_' and '-', at most {MAX_TOPIC_CHARACTERS} characters"
        )


def _check_name(kind: str, name: str) -> None:
    if len(name) > MAX_NAME_CHARACTERS or not _NAME.fullmatch(name):
        raise GraphError(
            f"{name!r} is no {kind} name: letters, digits, '_' and '-', beginning with a letter or digit, "
            f"at most {MAX_NAME_CHARACTERS} characters, since it becomes part of topic names"
        )


def name_of(function: object) -> str:
    """What a step of a user's function is called."""
    return str(getattr(function, "__name__", type(function).__name__))

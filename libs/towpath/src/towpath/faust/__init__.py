"""Event-at-a-time programs in Faust's idiom, on Towpath's stages.

::

    from towpath import faust

    app = faust.App("greetings")
    greetings = app.topic("greetings", value_type=str)

    @app.agent(greetings)
    async def greet(stream):
        async for greeting in stream:
            print(greeting)

Each agent becomes a stage, with its tables in the stage's changelog and its topics in the stage's transaction. What
Faust has and Towpath has not raises :class:`UnsupportedFaustFeatureError`, which says what to use instead; most of it
when the program is imported. If an agent raises, what it did for that event is dropped, the event goes to the
dead-letter topic with the reason, and the agent begins anew with the next one.
"""

from typing import Any

from towpath.faust.agents import Agent
from towpath.faust.app import App
from towpath.faust.errors import (
    AgentStuckError,
    FaustProgramError,
    NoCurrentEventError,
    UnsupportedFaustFeatureError,
    ValidationError,
)
from towpath.faust.models import Record
from towpath.faust.streams import Stream
from towpath.faust.tables import Table
from towpath.faust.topics import Event, Topic
from towpath.faust.unsupported import MODULE

__all__ = [
    "Agent",
    "AgentStuckError",
    "App",
    "Event",
    "FaustProgramError",
    "NoCurrentEventError",
    "Record",
    "Stream",
    "Table",
    "Topic",
    "UnsupportedFaustFeatureError",
    "ValidationError",
]


def __getattr__(name: str) -> Any:
    if name in MODULE:
        raise UnsupportedFaustFeatureError(f"faust.{name}", MODULE[name])
    raise AttributeError(f"module 'towpath.faust' has no attribute {name!r}")

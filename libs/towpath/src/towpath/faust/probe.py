"""Finds out how an agent reads its stream: by running it up to where it asks for its first event."""

from __future__ import annotations

from towpath.faust.agents import Agent
from towpath.faust.driving import Asked
from towpath.faust.errors import FaustProgramError
from towpath.faust.streams import Grouping, Stream
from towpath.faust.topics import Event
from towpath.query.errors import QueryError


class _ProbeFeed:
    """A feed that only notes that it was asked."""

    async def next_event(self) -> Event:
        """Hand control to the probe, which never gives an event."""
        await Asked()
        raise AssertionError("the probe closes the agent instead of giving it an event")


def probe(agent: Agent) -> Grouping | None:
    """The ``group_by`` of an agent, if it has one. Code before the agent's loop is run.

    Raises:
        FaustProgramError: it fails, waits for something else, or ends before it asks for an event.
    """
    stream = Stream(_ProbeFeed())
    running = agent.run(stream)
    try:
        first = running.send(None)
    except StopIteration:
        raise FaustProgramError(
            f"agent {agent.name!r} ends without asking for an event: iterate over its stream"
        ) from None
    except QueryError:
        raise
    except Exception as error:
        raise FaustProgramError(
            f"agent {agent.name!r} fails before it asks for its first event, with {type(error).__name__}: {error}; "
            "what comes before the loop is run at plan time and must need neither events nor an event loop"
        ) from error
    finally:
        running.close()
    if not isinstance(first, Asked):
        raise FaustProgramError(f"agent {agent.name!r} waits for something else before it asks for its first event")
    return stream.grouping

"""Agents: the user's functions, and where their events come from and their results go."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from towpath.faust.errors import FaustProgramError, UnsupportedFaustFeatureError
from towpath.faust.streams import Stream
from towpath.faust.topics import Topic

AgentFunction = Callable[[Any], Any]
"""``async def agent(stream)``, with or without ``yield``."""

_INSTEAD = "send to a topic; answers to a caller need a second topic that the caller reads"


class Agent:
    """A function that handles the events of a topic one by one."""

    def __init__(
        self, name: str, function: AgentFunction, topic: Topic, *, own_topic: bool, sink: Sequence[Any]
    ) -> None:
        """Made by :meth:`towpath.faust.App.agent`. ``own_topic``: the topic is made for this agent."""
        if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
            raise FaustProgramError(f"agent {name!r} must be `async def`")
        self.name = name
        self.function = function
        self.topic = topic
        self.own_topic = own_topic
        self.sinks = list(sink)
        self.__doc__ = function.__doc__

    @property
    def channel(self) -> Topic:
        """The topic that the agent reads."""
        return self.topic

    def add_sink(self, sink: Any) -> None:
        """Send what the agent yields to one more topic, agent or function."""
        self.sinks.append(sink)

    async def send(self, *, key: Any = None, value: Any = None, **options: Any) -> None:
        """Write an event for this agent to its topic."""
        self.topic.send_soon(key=key, value=value, **options)

    def send_soon(self, *, key: Any = None, value: Any = None, **options: Any) -> None:
        """The same without ``await``."""
        self.topic.send_soon(key=key, value=value, **options)

    async def cast(self, value: Any = None, *, key: Any = None) -> None:
        """Write an event for this agent to its topic, without an answer."""
        self.topic.send_soon(key=key, value=value)

    async def run(self, stream: Stream) -> None:
        """Run the function over the stream; what it yields goes to the sinks."""
        if inspect.isasyncgenfunction(self.function):
            results: AsyncIterator[Any] = self.function(stream)
            async for result in results:
                await self._deliver(result)
        else:
            await self.function(stream)

    async def _deliver(self, result: Any) -> None:
        for sink in self.sinks:
            if isinstance(sink, Topic | Agent):
                await sink.send(value=result)
            else:
                answer = sink(result)
                if isinstance(answer, Awaitable):
                    await answer

    def __getattr__(self, name: str) -> Any:
        """Name what Faust's agents have besides."""
        if name in ("ask", "ask_nowait", "map", "kvmap", "join", "kvjoin", "test_context", "stream", "cancel"):
            raise UnsupportedFaustFeatureError(f"Agent.{name}", _INSTEAD)
        raise AttributeError(f"Agent has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<Agent {self.name}>"

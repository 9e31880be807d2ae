"""Topics, and events as an agent sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from towpath.faust.errors import UnsupportedFaustFeatureError
from towpath.faust.serializers import Serde

if TYPE_CHECKING:
    from towpath.faust.runtime import Runtime

_SEND_OPTIONS = (
    "partition",
    "timestamp",
    "headers",
    "schema",
    "key_serializer",
    "value_serializer",
    "callback",
    "force",
)


class Topic:
    """A topic, with the types of its keys and values."""

    def __init__(self, name: str, key: Serde, value: Serde, partitions: int | None, runtime: Runtime) -> None:
        """Made by :meth:`towpath.faust.App.topic`."""
        self.name = name
        self.key = key
        self.value = value
        self.partitions = partitions
        self._runtime = runtime

    async def send(self, *, key: Any = None, value: Any = None, **options: Any) -> None:
        """Write a record, in the same transaction as everything else that the event leads to.

        Raises:
            UnsupportedFaustFeatureError: an option besides key and value.
            NoCurrentEventError: outside the handling of an event.
        """
        self.send_soon(key=key, value=value, **options)

    def send_soon(self, *, key: Any = None, value: Any = None, **options: Any) -> None:
        """The same without ``await``."""
        for option, given in options.items():
            if option not in _SEND_OPTIONS:
                raise TypeError(f"send() has no argument {option!r}")
            if given is not None and given is not False:
                raise UnsupportedFaustFeatureError(
                    f"send({option}=…)", "leave it out; the key decides the partition, the types of the topic the form"
                )
        self._runtime.turn.send(self.name, self.key.dumps(key), self.value.dumps(value))

    def __getattr__(self, name: str) -> Any:
        """Name what Faust's topics have besides."""
        if name in ("stream", "declare", "maybe_declare", "get_topic_name", "publish_message", "derive", "clone"):
            raise UnsupportedFaustFeatureError(
                f"Topic.{name}", "read topics by agents; Towpath makes the topics of a query before it starts"
            )
        raise AttributeError(f"Topic has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<Topic {self.name}>"


@dataclass(frozen=True)
class Event:
    """A record of a topic with its key, from ``stream.events()``."""

    key: Any
    value: Any

    async def forward(self, channel: Any, *, key: Any = None, value: Any = None) -> None:
        """Send the event on, with another key or value if given."""
        await channel.send(key=self.key if key is None else key, value=self.value if value is None else value)

    def __getattr__(self, name: str) -> Any:
        """Name what Faust's events have besides."""
        if name in ("message", "headers", "app", "ack", "send"):
            raise UnsupportedFaustFeatureError(
                f"Event.{name}",
                "use event.key and event.value; positions belong to the runtime, and topic.send() writes",
            )
        raise AttributeError(f"Event has no attribute {name!r}")

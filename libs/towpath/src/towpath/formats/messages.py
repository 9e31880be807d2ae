"""Finds the Protobuf message type that a query names."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from towpath.query.errors import nearest


def message_class(name: str, descriptors: str | Path | None = None) -> type[Message]:
    """The class of a message type.

    Args:
        name: ``package.module_pb2:Message`` of generated code; or with ``descriptors`` the full name in the file.
        descriptors: file that ``protoc --include_imports --descriptor_set_out`` has made.

    Raises:
        ValueError: there is no such message; the text names the nearest.
    """
    return _generated(name) if descriptors is None else _described(name, Path(descriptors))


def _generated(name: str) -> type[Message]:
    module_name, separator, path = name.partition(":")
    if not separator or not path:
        raise ValueError(f"{name!r} names no message: write 'package.module_pb2:Message', or name a descriptor set")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: object = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"module {module_name!r} of message {path!r} can't be imported: {error}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{module_name!r} has no message {path!r}{nearest(part, _messages(found))}")
        found = getattr(found, part)
    if not isinstance(found, type) or not issubclass(found, Message):  # a wrong name, not a wrong type
        raise ValueError(f"{name!r} is no Protobuf message, but {type(found).__name__}")  # noqa: TRY004 - as above
    return found


def _messages(holder: object) -> list[str]:
    return [name for name, value in vars(holder).items() if isinstance(value, type) and issubclass(value, Message)]


def _described(name: str, path: Path) -> type[Message]:
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
    except OSError as error:
        raise ValueError(f"descriptor set {path} can't be read: {error.strerror}") from error
    except DecodeError as error:
        raise ValueError(f"{path} is no descriptor set, as protoc --descriptor_set_out makes it: {error}") from error
    pool = DescriptorPool()
    try:
        for file in files.file:
            pool.Add(file)
        return GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError as error:
        known = [f"{file.package}.{each.name}".lstrip(".") for file in files.file for each in file.message_type]
        raise ValueError(f"{path} has no message {name!r}{nearest(name, known)}") from error
    except TypeError as error:
        raise ValueError(
            f"{path} lacks what its files import ({error}): make it with protoc --include_imports"
        ) from error

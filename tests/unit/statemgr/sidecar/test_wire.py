"""Messages of the wire."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import statemgr
from statemgr.errors import CodecError
from statemgr.migration.ports import Chunk, Found, LookedUp
from statemgr.sidecar import wire
from statemgr.sidecar.reads import Read
from statemgr.sidecar.v1 import statemgr_pb2 as pb

SOURCE = Path(statemgr.__file__).parents[1]
PROTO = "statemgr/sidecar/v1/statemgr.proto"


@pytest.mark.slow
def test_the_committed_code_is_what_the_definition_generates(tmp_path):
    from grpc_tools import protoc

    options = [f"--{kind}={tmp_path}" for kind in ("python_out", "pyi_out", "grpc_python_out")]
    assert protoc.main(["protoc", f"-I{SOURCE}", *options, PROTO]) == 0
    generated = sorted((tmp_path / PROTO).parent.iterdir())
    assert len(generated) == 3, sys.version
    for file in generated:
        assert file.read_text() == (SOURCE / PROTO).with_name(file.name).read_text(), f"{file.name} is out of date"


def test_the_kinds_of_the_wire_are_those_of_the_definition():
    names = {found.name: pb.Found.Value(found.name) for found in Found}
    answer = LookedUp(1, 2, tuple(Found))
    assert list(wire.looked_up_message(answer).found) == list(names.values())
    assert wire.looked_up_message(LookedUp(1, 2, (b"v",))).found[0] == pb.VALUE


def test_answers_survive_the_wire():
    found = (b"v", Found.DELETED, b"", Found.ABSENT, Found.UNKNOWN, b"w")
    looked_up = LookedUp(3, -1, found)
    assert wire.read_looked_up(wire.looked_up_message(looked_up)) == looked_up
    for following in (None, b"", b"k"):
        chunk = Chunk(3, 7, ((b"a", b"v"), (b"b", None), (b"c", b"")), following, True)
        assert wire.read_chunk(wire.chunk_message(chunk)) == chunk
    for owner in (None, "a"):
        read = Read(3, 7, found, True, owner)
        assert wire.read_read(wire.read_message(read)) == read


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (wire.read_looked_up, pb.LookUpResponse(found=b"\0\0", values=[b"v"])),
        (wire.read_looked_up, pb.LookUpResponse(found=b"\x09")),
        (wire.read_chunk, pb.ChunkResponse(keys=[b"a", b"b"], found=b"\0", values=[b"v"])),
        (wire.read_filter, pb.FilterResponse()),
        (wire.read_description, pb.DescribeResponse(meta=b"{")),
    ],
)
def test_answers_that_make_no_sense_are_refused(read, message):
    with pytest.raises(CodecError):
        read(message)

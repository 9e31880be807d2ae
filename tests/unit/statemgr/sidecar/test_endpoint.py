"""The file that says where a state manager listens."""

from __future__ import annotations

from statemgr.sidecar.endpoint import Endpoint, read_endpoint, remove_endpoint, write_endpoint


def test_it_is_read_as_written_and_replaced_whole(tmp_path):
    assert read_endpoint(tmp_path) is None
    write_endpoint(tmp_path, Endpoint("127.0.0.1", 1, 10))
    write_endpoint(tmp_path, Endpoint("127.0.0.1", 2, 11))
    assert read_endpoint(tmp_path) == Endpoint("127.0.0.1", 2, 11)
    assert [entry.name for entry in tmp_path.iterdir()] == ["statemgr.json"]


def test_only_its_own_file_is_removed(tmp_path):
    mine, other = Endpoint("h", 1, 10), Endpoint("h", 2, 11)
    write_endpoint(tmp_path, other)
    remove_endpoint(tmp_path, mine)
    assert read_endpoint(tmp_path) == other
    remove_endpoint(tmp_path, other)
    remove_endpoint(tmp_path, other)
    assert read_endpoint(tmp_path) is None


def test_a_broken_file_counts_as_none(tmp_path):
    (tmp_path / "statemgr.json").write_text("{")
    assert read_endpoint(tmp_path) is None


def test_the_address_of_an_ipv6_host_has_brackets():
    assert Endpoint("::1", 7, 1).address == "[::1]:7"
    assert Endpoint("h", 7, 1).address == "h:7"

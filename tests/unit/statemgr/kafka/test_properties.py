"""Client properties from a file."""

from __future__ import annotations

import pytest

from statemgr.kafka.properties import read_properties


def test_lines_are_read_and_comments_passed_over(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("# secrets\n\nsasl.password = a=b \nsecurity.protocol=SASL_SSL\n")
    # pragma: allowlist nextline secret
    assert read_properties(file) == {"sasl.password": "a=b", "security.protocol": "SASL_SSL"}
    assert read_properties(None) == {}


@pytest.mark.parametrize(
    ("content", "said"), [(b"a=1\nsecurity.protocol\n", r"line 2: expected key=value"), (b"\xff", "not text in UTF-8")]
)
def test_a_file_that_makes_no_sense_is_named(tmp_path, content, said):
    file = tmp_path / "client.properties"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=rf"client\.properties.*{said}"):
        read_properties(file)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="can't be read: No such file"):
        read_properties(tmp_path / "none")

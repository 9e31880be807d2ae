"""Where a service may listen."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from statemgr.errors import SecurityError
from statemgr.security import Credentials, check_listening, credentials_to_listen, is_loopback

TOKEN = "0123456789abcdef"
OUTSIDE = ["0.0.0.0", "::", "", "10.0.0.7", "fd00::7", "machine", "localhost.example.com", "127.1", "0"]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"])
def test_on_loopback_nothing_is_needed(host: str) -> None:
    assert is_loopback(host)
    check_listening(host, Credentials(), "the coordinator")


@pytest.mark.parametrize("host", OUTSIDE)
def test_elsewhere_a_service_without_credentials_does_not_start(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(SecurityError, match="the coordinator would listen at") as refused:
        credentials_to_listen(host, "the coordinator", {}, structlog.get_logger())
    said = str(refused.value)
    assert all(
        word in said for word in ("TOWPATH_TOKEN_FILE", "TOWPATH_TLS_CERT", "127.0.0.1", "TOWPATH_INSECURE=true")
    )
    assert "\n" not in said


def test_with_a_token_it_starts_and_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    environ = {"TOWPATH_TOKEN_FILE": str(tmp_path / "token")}
    with capture_logs() as said:
        found = credentials_to_listen("0.0.0.0", "the coordinator", environ, structlog.get_logger())
    assert (found.tokens, said) == ((TOKEN,), [])


def test_who_does_without_is_warned_at_every_start() -> None:
    environ = {"TOWPATH_INSECURE": "true"}
    with capture_logs() as said:
        credentials_to_listen("0.0.0.0", "the stage", environ, structlog.get_logger())
        credentials_to_listen("127.0.0.1", "the stage", environ, structlog.get_logger())
    (line,) = said
    assert line["log_level"] == "warning"
    assert line["event"].startswith("INSECURE: the stage listens at 0.0.0.0 and demands no credentials")

"""What the environment says of a worker and of its state manager."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from statemgr.errors import SecurityError
from statemgr.faust.environment import Environment

TOKEN = "0123456789abcdef"  # pragma: allowlist secret
APP = SimpleNamespace(conf=SimpleNamespace(tabledir="/data/v1/tables", broker_session_timeout=60.0))


def environment(**variables: str) -> Environment:
    return Environment.of(APP, variables)


def test_without_any_the_state_manager_is_the_worker_s_own_on_loopback():
    found = environment()
    assert found.directory == Path("/data/v1/tables/statemgr")
    assert (found.manners.host, found.manners.external) == ("127.0.0.1", False)
    assert found.manners.absent_s > APP.conf.broker_session_timeout
    assert not found.credentials.demanded


def test_each_can_be_set():
    found = environment(STATEMGR_DIRECTORY="/state", STATEMGR_ADVERTISE="worker-1", STATEMGR_EXTERNAL="1")
    assert (found.directory, found.manners.advertise, found.manners.external) == (Path("/state"), "worker-1", True)


def test_a_worker_whose_state_manager_others_would_reach_needs_credentials(tmp_path):
    with pytest.raises(SecurityError, match=r"would listen at 0\.0\.0\.0.* without credentials"):
        environment(STATEMGR_HOST="0.0.0.0")
    (tmp_path / "token").write_text(TOKEN)
    found = environment(STATEMGR_HOST="0.0.0.0", TOWPATH_TOKEN_FILE=str(tmp_path / "token"))
    assert found.credentials.tokens == (TOKEN,)


def test_where_others_start_the_state_manager_it_is_their_matter_where_it_listens():
    assert environment(STATEMGR_HOST="0.0.0.0", STATEMGR_EXTERNAL="1").manners.external


def test_wrong_credentials_are_named_by_their_variable():
    with pytest.raises(SecurityError, match="TOWPATH_TOKEN_FILE"):
        environment(TOWPATH_TOKEN_FILE="/nowhere")

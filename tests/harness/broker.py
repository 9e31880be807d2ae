"""A real broker for tests: one for the whole run, and others that a test may kill.

Tests that use a fixture of this module get the marker `broker`. Without a usable Java they
are skipped with the reason, except where the variable CI is set: there that is a failure.
"""

import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from towpath.broker import LocalBroker
from towpath.broker.layout import Layout
from towpath.jars import JavaMissingError, JavaTooOldError, find_java

_FIXTURES = {"broker", "own_broker"}
_NAME_CHARACTERS = 60
"""Kept of a test's name: a topic may have 249 characters, and callers append to the prefix."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.broker)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("broker") is not None:
        require_java()


def require_java() -> None:
    """Skips the running test without a usable Java; under CI fails it."""
    try:
        find_java()
    except (JavaMissingError, JavaTooOldError) as error:
        if os.environ.get("CI"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """The run's broker, shared by all tests: use names of your own, and don't stop it."""
    yield from _running(LocalBroker(tmp_path_factory.mktemp("broker"), short_lived=True, tied=True))


@pytest.fixture(scope="session")
def stopped_broker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of a broker that has been started once and stopped: a copy of it starts in a third of the time."""
    broker = LocalBroker(tmp_path_factory.mktemp("stopped") / "broker", short_lived=True, tied=True)
    broker.start()
    broker.stop()
    Layout(broker.data_dir).state.unlink()  # a copy is another broker, with ports of its own
    return broker.data_dir


@pytest.fixture
def own_broker(stopped_broker: Path, tmp_path: Path) -> Iterator[LocalBroker]:
    """A running broker of this test alone, which it may stop, pause or kill."""
    shutil.copytree(stopped_broker, tmp_path / "broker")
    yield from _running(LocalBroker(tmp_path / "broker", short_lived=True, tied=True))


@pytest.fixture
def unique_name() -> Callable[[str], str]:
    """Makes names that no other test, and no earlier run, has used: `unique_name("bids")`."""
    return lambda stem: f"{stem}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest, unique_name: Callable[[str], str]) -> str:
    """A prefix for this test's topics, groups and transactional ids, readable in the broker's log."""
    name: str = request.node.name
    return unique_name(re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:_NAME_CHARACTERS])


def _running(broker: LocalBroker) -> Iterator[LocalBroker]:
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
        # Logs stay for a look after a failure; the data would fill the disk run by run.
        shutil.rmtree(broker.data_dir / "kafka", ignore_errors=True)

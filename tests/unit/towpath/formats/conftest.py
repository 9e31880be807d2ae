from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from tests.harness.schema_registry import SchemaRegistry

settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")


@pytest.fixture(autouse=True)
def quiet_logs() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def service() -> Iterator[SchemaRegistry]:
    """A registry for all tests of a module; schemas are never taken from it."""
    with SchemaRegistry() as running:
        yield running

"""A cluster for tests: the one that KUBECONFIG names, in a namespace of this run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.cluster import Cluster, cluster_missing, namespace


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.kubernetes)


@pytest.fixture(scope="session")
def kubectl() -> None:
    """A kubectl that is new enough, and an API server."""
    missing = cluster_missing(os.environ)
    if missing is not None:
        pytest.skip(missing)


@pytest.fixture
def cluster(kubectl: None) -> Iterator[Cluster]:
    """A namespace of its own in the cluster; all that is in it goes at the end."""
    with namespace() as made:
        yield made


@pytest.fixture(scope="module")
def shared_cluster(kubectl: None) -> Iterator[Cluster]:
    """The same for all tests of a module."""
    with namespace() as made:
        yield made

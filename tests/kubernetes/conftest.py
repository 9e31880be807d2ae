"""A cluster for tests: the one that KUBECONFIG names, in a namespace of this run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.cluster import Cluster, cluster_missing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.kubernetes)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A namespace of its own in the cluster; all that is in it goes at the end."""
    missing = cluster_missing(os.environ)
    if missing is not None:
        pytest.skip(missing)
    made = Cluster()
    try:
        made.prepare()
        yield made
    finally:
        made.close()

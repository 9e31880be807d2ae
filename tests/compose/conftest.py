"""Docker for all tests of containers: the engine, and the images, built once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.harness.compose import Compose, engine_missing

Projects = Callable[..., Compose]


@pytest.fixture(scope="session")
def images() -> None:
    """All images of the repository, built from it as it is."""
    missing = engine_missing()
    if missing is not None:
        pytest.skip(missing)
    Compose()("--profile", "*", "build", "--quiet")


@pytest.fixture(scope="module")
def projects(images: None) -> Iterator[Projects]:
    """Makes projects that are removed at the end, whatever has become of them."""
    made: list[Compose] = []

    def make(files: tuple[str, ...] = (), **settings: str | int) -> Compose:
        made.append(Compose(files, **settings))
        return made[-1]

    yield make
    for project in made:
        project.remove()

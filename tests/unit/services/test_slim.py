"""What is removed from images."""

from __future__ import annotations

import importlib.util
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "services" / "slim.py"


@pytest.fixture(scope="module")
def slim() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slim", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    return tmp_path / "lib" / "python3.11" / "site-packages"


def write(packages: Path, *names: str) -> None:
    for name in names:
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_bytes(b"x")


def left(packages: Path) -> set[str]:
    return {str(path.relative_to(packages)) for path in packages.rglob("*") if path.is_file()}


def test_tests_and_what_only_compilers_and_type_checkers_read_are_removed(
    slim: ModuleType, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slim, "strip", lambda packages: None)
    write(packages, "a/__init__.py", "a/x.pyx", "a/x.pyi", "a/tests/test_a.py", "a/b/tests/__pycache__/t.pyc", "a/c.h")
    write(packages, "a/testing/__init__.py", "a/py.typed")
    slim.main(str(packages.parents[2]))
    assert left(packages) == {"a/__init__.py", "a/testing/__init__.py", "a/py.typed"}


def test_every_pattern_still_fits_something_of_the_locked_versions(slim: ModuleType) -> None:
    installed = Path(sysconfig.get_path("purelib"))
    for pattern in (*slim.NUMPY, *slim.ARROW, *slim.SPARK, *slim.WITH_SYMBOLS, *slim.ALL_BUT, *slim.KUBERNETES):
        assert slim.fitting(installed, pattern)


def test_a_pattern_that_fits_nothing_any_more_ends_the_build(slim: ModuleType, packages: Path) -> None:
    write(packages, "pyarrow/__init__.py")
    with pytest.raises(SystemExit, match=r"nothing in .* fits pyarrow/include: correct the patterns"):
        list(slim.unused(packages))
    write(packages.parent / "other", "polars/__init__.py")
    assert list(slim.unused(packages.parent / "other")) == []

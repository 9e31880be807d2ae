from __future__ import annotations

from pathlib import Path

import pytest

from towpath.errors import SettingsError
from towpath.stage.service import replica_directory


def test_each_application_and_replica_has_a_directory_of_its_own(tmp_path: Path) -> None:
    found = {replica_directory(tmp_path, app, replica) for app in ("a", "b") for replica in ("count-0", "count-1")}
    assert len(found) == 4
    assert all(directory.is_dir() for directory in found)


def test_a_directory_that_can_not_be_made_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"stores can't be kept in .*file.*--state-dir"):
        replica_directory(tmp_path / "file", "a", "count-0")

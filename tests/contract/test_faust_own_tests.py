"""Faust's own tests of stores and tables, from its source distribution, hold with ``store="statemgr://"``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.harness.faust_own_tests.source import SourceMissingError, source

pytest.importorskip("faust", reason="faust-streaming is not installed: pip install 'statemgr[faust]'")
pytestmark = pytest.mark.slow

PLUGIN = Path(__file__).resolve().parents[1] / "harness" / "faust_own_tests" / "plugin"
CHOSEN = ("tests/unit/stores/test_base.py", "tests/unit/tables")
LIMIT_S = 200.0

ANY_VALUE = "keeps values of other types than the table's, which only a store takes that does not encode them"
NO_RECORDS = "puts a mock in the place of the method from which the store learns of records"

NOT_APPLICABLE = {
    "stores/test_base.py::Test_Store::test_persisted_offset": "says that a store in memory has no offsets",
    "stores/test_base.py::Test_Store::test_on_rebalance": "the store asks Kafka: tests/broker/test_faust_tables.py",
    "tables/test_table.py::Test_Table::test_missing__when_default": ANY_VALUE,
    "tables/test_table.py::Test_Table::test_missing__no_default": ANY_VALUE,
    "tables/test_table.py::Test_Table::test_get_key": ANY_VALUE,
    "tables/test_table.py::Test_Table::test_clear": ANY_VALUE,
    "tables/test_table.py::Test_Table::test_as_ansitable": ANY_VALUE,
    "tables/test_table.py::Test_Table::test_set_key": NO_RECORDS,
    "tables/test_table.py::Test_Table::test_del_key": NO_RECORDS,
}
OF_FAUST = ("F_DATADIR", "FAUST_DATADIR", "F_WORKDIR", "FAUST_WORKDIR")
"""Variables that Faust's tests take away, and then miss."""


def test_faust_s_own_tests_of_stores_and_tables_hold_with_this_store(tmp_path: Path) -> None:
    try:
        directory = source()
    except SourceMissingError as error:
        pytest.skip(str(error))
    environment = {
        **{name: value for name, value in os.environ.items() if name not in OF_FAUST},
        "APP_STORE": "statemgr://",
        "NOT_APPLICABLE": json.dumps(NOT_APPLICABLE),
        "PYTHONPATH": str(PLUGIN),
    }
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "with_statemgr", "-p", "no:cacheprovider"]
    command += ["-c", str(tmp_path / "pytest.ini"), "--rootdir", str(directory), "--junitxml", str(tmp_path / "said")]
    done = subprocess.run(
        [*command, *CHOSEN], cwd=directory, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
    (suite,) = ElementTree.parse(tmp_path / "said").getroot().iter("testsuite")
    assert int(suite.get("tests", 0)) > 200
    assert int(suite.get("skipped", 0)) == len(NOT_APPLICABLE)

"""Three of the queries through it: a join that waits, a ranking, and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.run import compare, run_query

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.slow]


@pytest.mark.parametrize("name", ["q3", "q10", "q19"])
def test_a_query_gives_the_same_with_a_rescale_and_a_kill(name: str, broker, spark, tmp_path: Path) -> None:
    result = compare(run_query(name, broker, tmp_path / name), broker, spark)
    assert result.ok, result.to_dict()

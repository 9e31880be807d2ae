"""Two of the queries through it: a join that waits, and a ranking."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.oracle import verify_topics
from tests.verify.run import GOLDEN_ROWS, Verified, run_query

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.slow]


@pytest.mark.parametrize("name", ["q3", "q19"])
def test_a_query_gives_the_same_with_a_rescale_and_a_kill(name: str, broker, spark, tmp_path: Path) -> None:
    ran = run_query(name, broker, tmp_path / name)
    (compared,) = verify_topics(spark, broker.bootstrap, name, ran.source, ran.sink)
    result = Verified(ran, compared, GOLDEN_ROWS[name])
    assert result.ok, result.to_dict()

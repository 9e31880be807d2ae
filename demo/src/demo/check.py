"""Compares what the pipeline put out, and the state it left, with the Spark SQL oracle."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from demo.settings import INPUT, QUERY, SINK
from loadgen.oracle import verify_topics


def compare(spark: SparkSession, bootstrap: str, state: Path) -> tuple[int, int]:
    """Mismatches of outputs and final state together, and the number of outputs."""
    outputs, final = verify_topics(spark, bootstrap, QUERY, INPUT, SINK, state=state)
    return outputs.mismatches + final.mismatches, outputs.actual

"""The jobs in Spark Structured Streaming: ``program.py RUN.json`` runs one of them on a local Spark until SIGTERM."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json, struct, to_json

NUMBERS = "auction BIGINT, bidder BIGINT, price BIGINT, date_time BIGINT"
BID = f"type STRING, {NUMBERS}, channel STRING, url STRING, extra STRING"
JOBS = {
    "q0": ("auction", "bidder", "price", "date_time", "extra"),
    "q1": ("auction", "bidder", "CAST(price * 0.908 AS DECIMAL(23, 3)) AS price", "date_time", "extra"),
    "q2": ("auction", "price"),
    "q22": (
        "auction",
        "bidder",
        "price",
        "channel",
        "split(url, '/')[3] AS dir1",
        "split(url, '/')[4] AS dir2",
        "split(url, '/')[5] AS dir3",
    ),
}


def main() -> None:
    """Build the job and run it."""
    run = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    builder = SparkSession.builder.appName(run["app"])
    for name, value in run["settings"].items():
        if name.startswith("spark."):
            builder = builder.config(name, value)
    spark = builder.getOrCreate()
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", run["bootstrap"])
        .option("subscribe", run["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", run["settings"]["maxOffsetsPerTrigger"])
        .load()
    )
    bids = events.select(from_json(col("value").cast("string"), BID).alias("bid")).select("bid.*")
    bids = bids.where("type = 'bid'")
    query = (
        outputs(bids, run["job"])
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", run["bootstrap"])
        .option("topic", run["sink"])
        .option("checkpointLocation", f"{run['state_dir']}/checkpoints")
        .outputMode("update" if run["job"] == "count" else "append")
        .start()
    )
    query.awaitTermination()


def outputs(bids: DataFrame, job: str) -> DataFrame:
    """What the sink gets: a value, and a key for counts."""
    if job == "count":
        counts = bids.groupBy("auction").count()
        return counts.select(
            col("auction").cast("string").alias("key"), to_json(struct("auction", "count")).alias("value")
        )
    if job == "q2":
        bids = bids.where("auction % 123 = 0")
    return bids.selectExpr(*JOBS[job]).select(to_json(struct("*")).alias("value"))


if __name__ == "__main__":
    main()

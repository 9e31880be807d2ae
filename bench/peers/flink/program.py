"""The jobs in Flink SQL: ``program.py RUN.json`` runs one of them on a cluster inside this process until SIGTERM."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment

BID = (
    "`type` STRING, auction BIGINT, bidder BIGINT, price BIGINT, "
    "channel STRING, url STRING, date_time BIGINT, extra STRING"
)
PASSED = "auction BIGINT, bidder BIGINT, price BIGINT, date_time BIGINT, extra STRING"
CONVERTED = "auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), date_time BIGINT, extra STRING"
SELECTED = "auction BIGINT, price BIGINT"
DIRECTORIES = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dir1 STRING, dir2 STRING, dir3 STRING"
LISTING = "`type` STRING, id BIGINT, seller BIGINT, category BIGINT, name STRING, city STRING, state STRING"
TIMED = (
    "`type` STRING, auction BIGINT, date_time BIGINT, "
    "happened AS TO_TIMESTAMP_LTZ(date_time, 3), WATERMARK FOR happened AS happened - INTERVAL '4' SECOND"
)
SUGGESTED = "name STRING, city STRING, state STRING, id BIGINT"
IN_WINDOW = "auction BIGINT, window_start BIGINT, `count` BIGINT"
COUNTED = "auction BIGINT, `count` BIGINT, PRIMARY KEY (auction) NOT ENFORCED"

JOBS = {
    "q0": (PASSED, "SELECT auction, bidder, price, date_time, extra FROM source WHERE `type` = 'bid'"),
    "q1": (
        CONVERTED,
        "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)), date_time, extra FROM source "
        "WHERE `type` = 'bid'",
    ),
    "q2": (SELECTED, "SELECT auction, price FROM source WHERE `type` = 'bid' AND MOD(auction, 123) = 0"),
    "q22": (
        DIRECTORIES,
        "SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3), SPLIT_INDEX(url, '/', 4), "
        "SPLIT_INDEX(url, '/', 5) FROM source WHERE `type` = 'bid'",
    ),
    "count": (COUNTED, "SELECT auction, COUNT(*) FROM source WHERE `type` = 'bid' GROUP BY auction"),
    "tumbling": (
        IN_WINDOW,
        "SELECT auction, 1000 * CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start) AS BIGINT), "
        "COUNT(*) FROM TABLE(TUMBLE(TABLE source, DESCRIPTOR(happened), INTERVAL '10' SECOND)) WHERE `type` = 'bid' "
        "GROUP BY auction, window_start, window_end",
    ),
    "q3": (
        SUGGESTED,
        "SELECT p.name, p.city, p.state, a.id FROM source a JOIN source p ON a.seller = p.id "
        "WHERE a.`type` = 'auction' AND a.category = 10 AND p.`type` = 'person' AND p.state IN ('OR', 'ID', 'CA')",
    ),
}
COLUMNS = {"tumbling": TIMED, "q3": LISTING}
"""Of the source, for those jobs that do not read bids alone."""


def main() -> None:
    """Build the job and run it."""
    run = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in run["settings"].items():
        tables.get_config().set(name, value)
    tables.get_config().set("pipeline.name", run["app"])
    tables.get_config().set("table.local-time-zone", "UTC")
    columns, query = JOBS[run["job"]]
    tables.execute_sql(source_table(run))
    tables.execute_sql(sink_table(run, columns))
    tables.execute_sql(f"INSERT INTO sink {query}").wait()


def source_table(run: dict[str, Any]) -> str:
    """The source topic as a table."""
    return f"""
        CREATE TABLE source ({COLUMNS.get(run["job"], BID)}) WITH (
            'connector' = 'kafka', 'topic' = '{run["source"]}',
            'properties.bootstrap.servers' = '{run["bootstrap"]}', 'properties.group.id' = '{run["app"]}',
            'scan.startup.mode' = 'earliest-offset', 'format' = 'json'
        )"""


def sink_table(run: dict[str, Any], columns: str) -> str:
    """The sink topic as a table: with a key for what is updated, else to be appended to."""
    kind = (
        "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
        if run["job"] == "count"
        else "'connector' = 'kafka', 'format' = 'json'"
    )
    return f"""
        CREATE TABLE sink ({columns}) WITH (
            {kind}, 'topic' = '{run["sink"]}', 'properties.bootstrap.servers' = '{run["bootstrap"]}',
            'sink.delivery-guarantee' = '{run["guarantee"]}', 'sink.transactional-id-prefix' = '{run["app"]}',
            'properties.transaction.timeout.ms' = '600000'
        )"""


if __name__ == "__main__":
    main()

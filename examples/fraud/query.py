"""Card testing: small payments that try a stolen card out, then a large one that its holder does not confirm."""

from __future__ import annotations

import polars as pl

from towpath.query import Query, cep

TOPIC = "fraud-transactions"
ALERTS = "fraud-alerts"

SCHEMA = {"card": pl.Int64, "time": pl.Int64, "kind": pl.String, "cents": pl.Int64}
"""A card's event: ``time`` in ms, ``kind`` one of ``payment`` (of ``cents``), ``cleared`` (the bank has looked at the
card) and ``confirmed`` (its holder has answered that the last payment is theirs)."""

PROBES = 3
PROBE_BELOW_CENTS = 500
CHARGE_ABOVE_CENTS = 50_000
WITHIN_MS = 60_000

LAG_MS = 5_000
"""Events of a partition come at most so much later than others of it."""

_PAYMENT = pl.col("kind") == "payment"

CARD_TESTING = (
    cep.begin("probe", _PAYMENT, pl.col("cents") < PROBE_BELOW_CENTS)
    .times(PROBES)
    .not_followed_by("cleared", pl.col("kind") == "cleared")
    .followed_by("charge", _PAYMENT, pl.col("cents") > CHARGE_ABOVE_CENTS)
    .not_followed_by("confirmed", pl.col("kind") == "confirmed")
    .within(WITHIN_MS)
)


def build(app: str = "fraud", partitions: int = 8, replicas: int = 1) -> Query:
    """Alert for each card that was tried out and charged.

    Args:
        app: prefix of the query's topics.
        partitions: of the edge and the sink, and so tasks.
        replicas: of the stage that detects, at the start.
    """
    query = Query(app, partitions=partitions, description="cards that are tried out, then charged")
    events = query.source(TOPIC, schema=SCHEMA, event_time="time", lag_ms=LAG_MS)
    alerts = (
        events.key_by("card")
        .stage("detect", parallelism=replicas)
        .match(
            CARD_TESTING,
            on="time",
            after_match="skip_past_last_event",
            probes=cep.every("probe", "cents"),
            charge=cep.last("charge", "cents"),
            charged_ms=cep.last("charge", "time"),
        )
    )
    alerts.sink(ALERTS, key="card")
    return query


query = build()

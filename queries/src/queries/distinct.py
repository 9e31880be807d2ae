"""Bids, bidders and auctions counted, each by price band, for Q15 and Q16.

Two steps, so that no set is kept in one place: each bidder and each auction is counted by itself, and what changes in
these counts is added up.
"""

from __future__ import annotations

import narwhals as nw
import polars as pl

from queries.prices import RANKS
from towpath.query import Stream, agg, expr

OF = ("bidder", "auction")
BANDS = ("total", *RANKS)


def counted(bids: Stream, *by: str, replicas: int, **more: agg.Aggregate) -> Stream:
    """Counts of bids, of distinct bidders and of distinct auctions, in all and by price band.

    Args:
        bids: with ``bidder``, ``auction``, ``price`` and the columns of ``by``.
        by: what is counted apart.
        replicas: of each of the two stages.
        more: further aggregates over what is left of a bid behind the first step: ``by``, and ``latest_minute``.
    """
    structs = ", ".join(f"STRUCT('{of}' AS of, {of} AS member)" for of in OF)
    members = expr(
        polars=pl.concat_list(*(pl.struct(of=pl.lit(of), member=of) for of in OF)),
        spark=f"ARRAY({structs})",
    )
    one_by_one = (
        bids.with_columns(members=members)
        .explode("members")
        .with_columns(of=nw.col("members").struct.field("of"), member=nw.col("members").struct.field("member"))
    )
    counts = (
        one_by_one.key_by(*by, "of", "member")
        .stage("member", parallelism=replicas)
        .aggregate(
            previous="_before",
            latest_minute=agg.max("minute"),
            total=agg.count(),
            **{band: agg.count(where=within) for band, within in RANKS.items()},
        )
    )
    return (
        counts.key_by(*by)
        .stage("sum", parallelism=replicas)
        .aggregate(
            **more,
            **{f"{band}_bids": agg.sum(_more(band), where=nw.col("of") == OF[0]) for band in BANDS},
            **{f"{band}_{of}s": agg.count(where=(nw.col("of") == of) & _first(band)) for of in OF for band in BANDS},
        )
    )


def columns() -> list[str]:
    """The counts in the order in which they are written."""
    return [f"{band}_{of}" for of in ("bids", "bidders", "auctions") for band in BANDS]


def _more(band: str) -> nw.Expr:
    return nw.col(band) - nw.col(f"{band}_before").fill_null(0)


def _first(band: str) -> nw.Expr:
    """Whether a member has its first bid in the band."""
    return (nw.col(band) > 0) & (nw.col(f"{band}_before").fill_null(0) == 0)

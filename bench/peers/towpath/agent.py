"""The count as an event-at-a-time agent in Faust's idiom: the program that faust-streaming runs, on our stages."""

from __future__ import annotations

from typing import Any

from towpath import faust


class Bid(faust.Record):
    """What the count reads."""

    type: str
    auction: int = 0


def build(app: str, source: str, sink: str, keyed: bool = False, partitions: int = 8) -> faust.App:
    """Bids per auction, one output per bid; arguments as in :mod:`bench.peers.towpath.job`."""
    program = faust.App(app, topic_partitions=partitions)
    events = program.topic(source, value_type=Bid)
    outputs = program.topic(sink, key_serializer="raw", value_serializer="json", partitions=partitions)
    counts = program.Table("counts", default=int)

    @program.agent(events)
    async def count(stream: Any) -> None:
        bids = stream.filter(lambda bid: bid.type == "bid")
        by_auction = bids if keyed else bids.group_by(Bid.auction)
        async for bid in by_auction:
            counts[bid.auction] += 1
            value = {"auction": bid.auction, "count": counts[bid.auction]}
            await outputs.send(key=str(bid.auction), value=value)

    return program

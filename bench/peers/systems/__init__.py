"""The systems, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Sequence

from bench.peers.model import System
from bench.peers.systems.bytewax import Bytewax
from bench.peers.systems.faust import Faust
from bench.peers.systems.flink import Flink
from bench.peers.systems.kafka_streams import KafkaStreams
from bench.peers.systems.pathway import Pathway
from bench.peers.systems.quix import Quix
from bench.peers.systems.spark import Spark
from bench.peers.systems.towpath import Towpath
from bench.peers.systems.towpath_agent import TowpathAgent


def all_systems() -> Sequence[System]:
    """Ours first."""
    return (
        Towpath(),
        TowpathAgent(),
        KafkaStreams(),
        Flink(),
        Spark(),
        Pathway(),
        Bytewax(),
        Quix(),
        Faust(),
    )

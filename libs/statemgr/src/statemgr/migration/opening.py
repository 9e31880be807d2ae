"""What the owner of a new epoch makes its store of: facts in, a named decision out (R7, R12).

::

    facts                                                          decision
    log start and end unknown                                      AskAgain
    own store of this very epoch, still a base                     Reopen: its tail, its migration record
    strategy restart or replay                                     Replay
    an own older store, complete, still a base, short tail         OwnBase: a copy of it, its tail
    a holder was not asked, is silent, or sees us as owner later   AskAgain, while there is patience
    a layer is there and a base, or stands at the cut              Layers: its tail first, if there is any
    else                                                           Replay

The first layer that is usable is the *top*: its X decides from where the changelog's tail is read, and that tail makes
up for every newer layer that is not there. Deeper layers are only asked for what the top itself has not taken over,
and that has not changed since their X, so their age does not matter; but below one that is lost nothing may be asked,
because it would answer with older values.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from statemgr.control.records import FROM_CHANGELOG, Layer
from statemgr.decisions import RestoreFully, UseBase, Wait, decide_base
from statemgr.migration.model import (
    AskAgain,
    LayerFacts,
    Layers,
    NoAnswer,
    Opening,
    OpeningFacts,
    OwnBase,
    OwnStore,
    Reopen,
    Replay,
)
from statemgr.migration.ports import Description
from statemgr.migration.record import ALL_BINS, NO_BINS, MigrationRecord, is_complete
from statemgr.migration.sources import UsableLayer
from statemgr.store.base import StoreMeta

__all__ = [
    "SHORT_TAIL",
    "AskAgain",
    "LayerFacts",
    "Layers",
    "NoAnswer",
    "Opening",
    "OpeningFacts",
    "OwnBase",
    "OwnStore",
    "Reopen",
    "Replay",
    "decide_opening",
]

SHORT_TAIL = 20_000
"""Offsets: read in about 0.1 s. A longer tail of an own store makes the first row wait longer than a look-up does."""


def decide_opening(facts: OpeningFacts) -> Opening:
    """What to make the store of; see the table above.

    A store of this epoch that is there and is not reopened is to be destroyed first.
    """
    if facts.log.known_bounds() is None:
        return AskAgain(f"log start and end of the changelog are unknown (heard: {facts.log.bounds})")
    decision: Opening | None = _reopen(facts)
    if decision is None and facts.manner.strategy in FROM_CHANGELOG:
        decision = Replay(f"strategy {facts.manner.strategy}")
    return decision or _own_base(facts) or _layers(facts) or Replay(_why_no_layer(facts))


def _reopen(facts: OpeningFacts) -> Reopen | AskAgain | None:
    for own in facts.own:
        if own.epoch == facts.epoch and own.meta is not None:
            match _judge(own.meta, facts):
                case UseBase(from_offset):
                    return Reopen(from_offset, own.record, _recorded(own.record, facts))
                case Wait(reason):
                    return AskAgain(reason)
                case _:
                    return None
    return None


def _own_base(facts: OpeningFacts) -> OwnBase | None:
    complete = [own for own in facts.own if own.epoch < facts.epoch and own.record is None and own.meta is not None]
    for own in sorted(complete, key=lambda own: own.epoch, reverse=True):
        judged = _judge(own.meta, facts)
        bounds = facts.log.known_bounds()
        if isinstance(judged, UseBase) and bounds is not None and bounds.end - judged.from_offset <= SHORT_TAIL:
            return OwnBase(own.epoch, judged.from_offset)
    return None


def _layers(facts: OpeningFacts) -> Layers | AskAgain | None:
    """The newest usable layer and what may be asked below it."""
    for number, each in enumerate(facts.layers):
        if _void(each.layer, facts):
            continue
        match each.said:
            case NoAnswer.NOT_ASKED if known := _as_released(each.layer, facts):
                return Layers((known[0], *_undescribed(facts.layers[number + 1 :])), known[1], tail=False)
            case NoAnswer.NOT_ASKED | NoAnswer.SILENT | NoAnswer.LATER if facts.patient:
                return AskAgain(f"{each.layer.holder}@{each.layer.epoch}: {each.said.value}")
            case Description(meta=StoreMeta() as meta):
                found = _over(each.layer, each.said, meta, facts)
                if found is not None:
                    return found
            case _:
                pass
    return None


def _over(layer: Layer, said: Description, meta: StoreMeta, facts: OpeningFacts) -> Layers | AskAgain | None:
    """A store over this layer, if it is a base.

    One that stands at the cut has no tail, so that it does not matter how old it is: an idle task moves as well.
    """
    sources: tuple[UsableLayer, ...] = (UsableLayer(layer, meta.offset, said.complete),)
    if not is_complete(said.complete):
        sources += tuple(_deeper(said.layers, facts, said.beneath))
    cut = _cut(facts)
    if cut is not None and meta.offset >= cut and meta.topic_id == facts.log.topic_id:
        return Layers(sources, _beginning(meta, facts, facts.now_ms), tail=False)
    judged = _judge(meta, facts)
    if isinstance(judged, Wait) and facts.patient:
        return AskAgain(judged.reason)
    if not isinstance(judged, UseBase):
        return None
    return Layers(sources, _beginning(meta, facts, meta.committed_at_ms), tail=True)


def _beginning(meta: StoreMeta, facts: OpeningFacts, as_of_ms: int) -> StoreMeta:
    return msgspec.structs.replace(meta, epoch=facts.epoch, committed_at_ms=as_of_ms)


def _void(layer: Layer, facts: OpeningFacts) -> bool:
    """Whether the layer's owner never started: then it has nothing that the next one has not."""
    released = facts.released
    return released is not None and released.epoch == layer.epoch and not released.started


def _deeper(layers: Sequence[Layer], facts: OpeningFacts, least: int) -> list[UsableLayer]:
    """Of what a store was made of, as much from the top as can be asked without a gap.

    ``least``: the X that the first must have; each says it of the next.
    """
    said = {(each.layer.holder, each.layer.epoch): each for each in facts.layers}
    usable = []
    for layer in layers:
        known = said.get((layer.holder, layer.epoch))
        if known is None or known.said is NoAnswer.LOST:
            break
        if isinstance(known.said, Description):
            if known.said.meta is None or known.said.meta.topic_id != facts.log.topic_id:
                break
            usable.append(UsableLayer(known.layer, known.said.meta.offset, known.said.complete, least))
            if is_complete(known.said.complete):
                break
            least = known.said.beneath
        else:
            usable.append(UsableLayer(known.layer, least=least))
            least = -1  # known once its holder has been asked
    return usable


def _undescribed(layers: Sequence[LayerFacts]) -> list[UsableLayer]:
    """Deeper layers when nobody was asked: all that the assignment names, which may be more than is needed."""
    return [UsableLayer(each.layer) for each in layers]


def _recorded(record: MigrationRecord | None, facts: OpeningFacts) -> tuple[UsableLayer, ...]:
    """Sources of a store that is opened again: those of its record, as far as nobody says that they are lost."""
    if record is None:
        return ()
    asked = {(each.layer.holder, each.layer.epoch) for each in facts.layers}
    if asked.isdisjoint((layer.holder, layer.epoch) for layer in record.layers):
        least = (record.beneath, *[-1] * len(record.layers))
        return tuple(UsableLayer(layer, least=offset) for layer, offset in zip(record.layers, least, strict=False))
    return tuple(_deeper(record.layers, facts, record.beneath))


def _as_released(layer: Layer, facts: OpeningFacts) -> tuple[UsableLayer, StoreMeta] | None:
    """The top by what its owner's release says alone: it is complete up to the cut, which is the log's end.

    Where it is the only layer, its owner needed no other's copy when the task was assigned anew.
    """
    released, cut = facts.released, _cut(facts)
    if released is None or cut is None or not released.started or released.epoch != layer.epoch:
        return None
    meta = StoreMeta(facts.log.topic_id, cut, facts.now_ms, facts.epoch, released.progress)
    return UsableLayer(layer, cut, ALL_BINS if len(facts.layers) == 1 else NO_BINS), meta


def _cut(facts: OpeningFacts) -> int | None:
    """The changelog offset at which the task stands; None if the log must be read to know.

    Only the release of the epoch right before ours says it: after an older one somebody may have written more.
    """
    released = facts.released
    if released is None or released.epoch != facts.epoch - 1 or released.offset < 0:
        return None
    return released.offset


def _judge(meta: StoreMeta | None, facts: OpeningFacts) -> UseBase | RestoreFully | Wait | None:
    decision = decide_base(meta, facts.log, facts.epoch, facts.now_ms)
    return decision if isinstance(decision, UseBase | RestoreFully | Wait) else None


def _why_no_layer(facts: OpeningFacts) -> str:
    return "; ".join(_why_not(each, facts) for each in facts.layers) or "there is no layer to take state from"


def _why_not(each: LayerFacts, facts: OpeningFacts) -> str:
    name = f"{each.layer.holder}@{each.layer.epoch}"
    if isinstance(each.said, NoAnswer):
        return f"{name}: {each.said.value}"
    if each.said.meta is None:
        return f"{name}: nothing was ever written"
    judged = _judge(each.said.meta, facts)
    return f"{name}: {judged.reason if isinstance(judged, RestoreFully | Wait) else 'unused'}"

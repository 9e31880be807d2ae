"""What a new owner makes its store of (R7, R12): a table of cases."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from statemgr.control.records import Layer, Manner, Released, Strategy
from statemgr.decisions import LogFacts
from statemgr.kafka.ports import Bounds
from statemgr.migration.model import OwnStore
from statemgr.migration.opening import (
    SHORT_TAIL,
    AskAgain,
    LayerFacts,
    Layers,
    NoAnswer,
    OpeningFacts,
    OwnBase,
    Reopen,
    Replay,
    decide_opening,
)
from statemgr.migration.ports import Description
from statemgr.migration.record import ALL_BINS, NO_BINS, MigrationRecord
from statemgr.migration.sources import UsableLayer
from statemgr.progress import InputProgress, Progress
from statemgr.store import StoreMeta

NOW = 1_700_000_000_000
DAY = 86_400_000
EPOCH = 5
LOG = LogFacts("T", Bounds(0, 101), confirmed=True)
A, B, C = Layer("a", 4), Layer("b", 3), Layer("c", 2)
RECORD = MigrationRecord((A, B), 40, NO_BINS.hex())


def progress(number):
    return Progress(4, {"bids": InputProgress(number, number)})


def meta(offset=100, epoch=4, age_ms=0, topic="T"):
    return StoreMeta(topic, offset, NOW - age_ms, epoch, progress(offset))


def said(offset=100, *, complete=ALL_BINS, layers=(), **more):
    return Description(meta(offset, **more), complete, tuple(layers))


def released(epoch=4, offset=100, *, started=True):
    return Released("count", 0, epoch, "a", started, offset, progress(offset))


def facts(**more):
    given = {"epoch": EPOCH, "log": LOG, "now_ms": NOW, "manner": Manner()} | more
    given["layers"] = [LayerFacts(layer, answer) for layer, answer in given.get("layers", {}).items()]
    return OpeningFacts(**given)


def kind(decision):
    if isinstance(decision, Layers):
        return "layers", [source.layer for source in decision.sources], decision.tail
    return type(decision).__name__, *([decision.from_offset] if isinstance(decision, Reopen | OwnBase) else [])


CASES = {
    "nothing is known of the log": (
        {"log": LogFacts("T", None), "layers": {A: said()}},
        ("AskAgain",),
    ),
    "nothing is there": ({}, ("Replay",)),
    "our own store of this epoch": ({"own": [OwnStore(5, meta(90, 5))]}, ("Reopen", 91)),
    "our own incomplete store of this epoch": (
        {"own": [OwnStore(5, meta(90, 5), RECORD)], "layers": {A: said()}},
        ("Reopen", 91),
    ),
    "our own store of this epoch, never written": (
        {"own": [OwnStore(5, None)], "layers": {A: said()}, "released": released()},
        ("layers", [A], False),
    ),
    "our own store of this epoch, of another topic": (
        {"own": [OwnStore(5, meta(90, 5, topic="old"))], "layers": {A: said()}, "released": released()},
        ("layers", [A], False),
    ),
    "our own store is ahead of a log that may say too little": (
        {"own": [OwnStore(5, meta(200, 5))], "log": replace(LOG, confirmed=False)},
        ("AskAgain",),
    ),
    "strategy replay": ({"manner": Manner(Strategy.REPLAY), "layers": {A: said()}}, ("Replay",)),
    "strategy restart": ({"manner": Manner(Strategy.RESTART), "own": [OwnStore(3, meta(90, 3))]}, ("Replay",)),
    "strategy replay, our own store of this epoch": (
        {"manner": Manner(Strategy.REPLAY), "own": [OwnStore(5, meta(90, 5))]},
        ("Reopen", 91),
    ),
    "an own older store with a short tail": (
        {"own": [OwnStore(2, meta(50, 2)), OwnStore(3, meta(90, 3))], "layers": {A: said()}},
        ("OwnBase", 91),
    ),
    "an own older store that is incomplete": (
        {"own": [OwnStore(3, meta(90, 3), RECORD)], "layers": {A: said()}, "released": released()},
        ("layers", [A], False),
    ),
    "an own older store that is too old": (
        {"own": [OwnStore(3, meta(90, 3, DAY))], "layers": {A: said()}, "released": released()},
        ("layers", [A], False),
    ),
    "an own older store with a long tail": (
        {
            "own": [OwnStore(3, meta(90, 3))],
            "log": replace(LOG, bounds=Bounds(0, 92 + SHORT_TAIL)),
            "layers": {A: said(91 + SHORT_TAIL)},
        },
        ("layers", [A], True),
    ),
    "the release says all, nobody was asked": (
        {"layers": {A: NoAnswer.NOT_ASKED, B: NoAnswer.NOT_ASKED}, "released": released()},
        ("layers", [A, B], False),
    ),
    "the release says nothing of the cut, nobody was asked": (
        {"layers": {A: NoAnswer.NOT_ASKED}, "released": released(offset=-1)},
        ("AskAgain",),
    ),
    "an older release says nothing, nobody was asked": (
        {"layers": {A: NoAnswer.NOT_ASKED}, "released": released(epoch=3)},
        ("AskAgain",),
    ),
    "a layer at the cut": ({"layers": {A: said()}, "released": released()}, ("layers", [A], False)),
    "a layer at the cut, idle for long": (
        {"layers": {A: said(age_ms=DAY)}, "released": released()},
        ("layers", [A], False),
    ),
    "a layer behind the cut": ({"layers": {A: said(80)}, "released": released()}, ("layers", [A], True)),
    "no release: the owner was fenced": ({"layers": {A: said()}}, ("layers", [A], True)),
    "a release of an earlier owner": (
        {"layers": {A: said()}, "released": released(epoch=3)},
        ("layers", [A], True),
    ),
    "a layer that is too old for its tail": ({"layers": {A: said(80, age_ms=DAY)}}, ("Replay",)),
    "a layer behind the log's start": (
        {"layers": {A: said(80)}, "log": replace(LOG, bounds=Bounds(90, 101))},
        ("Replay",),
    ),
    "a layer of another topic at the cut": (
        {"layers": {A: said(topic="old")}, "released": released()},
        ("Replay",),
    ),
    "a layer ahead of a log that may say too little": (
        {"layers": {A: said(200)}, "log": replace(LOG, confirmed=False)},
        ("AskAgain",),
    ),
    "a holder is silent": ({"layers": {A: NoAnswer.SILENT, B: said(80)}}, ("AskAgain",)),
    "a holder below is silent": ({"layers": {A: said(80), B: NoAnswer.SILENT}}, ("layers", [A], True)),
    "a holder does not see us yet": ({"layers": {A: NoAnswer.LATER, B: said(80)}}, ("AskAgain",)),
    "a holder does not see us, patience is over": (
        {"layers": {A: NoAnswer.LATER, B: said(80)}, "patient": False},
        ("layers", [B], True),
    ),
    "the newest layer is lost": (
        {"layers": {A: NoAnswer.LOST, B: said(80)}, "released": released()},
        ("layers", [B], True),
    ),
    "all layers are lost": ({"layers": {A: NoAnswer.LOST, B: NoAnswer.LOST}}, ("Replay",)),
    "a layer without a single write": (
        {"layers": {A: Description(None, ALL_BINS, ()), B: said(80)}},
        ("layers", [B], True),
    ),
    "a void layer: its owner never started and passed the cut on": (
        {"layers": {A: said(80), B: said(100)}, "released": released(started=False)},
        ("layers", [B], False),
    ),
    "an incomplete layer over others": (
        {"layers": {A: said(complete=NO_BINS, layers=[B, C]), B: said(60, complete=NO_BINS), C: said(50)}},
        ("layers", [A, B, C], True),
    ),
    "an incomplete layer over a complete one": (
        {"layers": {A: said(complete=NO_BINS, layers=[B, C]), B: said(60), C: said(50)}},
        ("layers", [A, B], True),
    ),
    "a complete layer": ({"layers": {A: said(layers=[B]), B: said(60)}}, ("layers", [A], True)),
    "a deeper layer may be as old as it likes": (
        {"layers": {A: said(complete=NO_BINS, layers=[B]), B: said(60, age_ms=9 * DAY)}},
        ("layers", [A, B], True),
    ),
    "below a lost layer nothing is asked": (
        {"layers": {A: said(complete=NO_BINS, layers=[B, C]), B: NoAnswer.LOST, C: said(50)}},
        ("layers", [A], True),
    ),
    "a layer that the top was not made of is left out": (
        {"layers": {A: said(complete=NO_BINS, layers=[C]), B: NoAnswer.LOST, C: said(50)}},
        ("layers", [A, C], True),
    ),
    "a layer that is not in the assignment can't be asked": (
        {"layers": {A: said(complete=NO_BINS, layers=[B, C]), B: said(60, complete=NO_BINS)}},
        ("layers", [A, B], True),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_table(name):
    given, expected = CASES[name]
    assert kind(decide_opening(facts(**given))) == expected


def test_a_store_over_layers_begins_where_its_top_is_complete():
    decision = decide_opening(facts(layers={A: said(80, age_ms=1000)}, released=released()))
    assert decision.meta == StoreMeta("T", 80, NOW - 1000, EPOCH, progress(80))
    assert decision.sources == (UsableLayer(A, 80, ALL_BINS),)


def test_a_single_layer_at_the_cut_is_complete_by_the_log():
    for below, hint in (({}, ALL_BINS), ({B: NoAnswer.NOT_ASKED}, NO_BINS)):
        decision = decide_opening(facts(layers={A: NoAnswer.NOT_ASKED, **below}, released=released()))
        assert decision.sources[0] == UsableLayer(A, 100, hint)


def test_at_the_cut_it_is_as_young_as_now():
    for answer in (said(age_ms=DAY), NoAnswer.NOT_ASKED):
        decision = decide_opening(facts(layers={A: answer}, released=released()))
        assert decision.meta == StoreMeta("T", 100, NOW, EPOCH, progress(100))
        assert decision.progress == progress(100)


def test_addresses_are_those_of_the_assignment():
    newer = msgspec.structs.replace(B, address="new:1")
    top = said(complete=NO_BINS, layers=[msgspec.structs.replace(B, address="old:1")])
    decision = decide_opening(facts(layers={A: top, newer: said(60)}))
    assert [source.layer.address for source in decision.sources] == ["", "new:1"]


@pytest.mark.parametrize(
    ("layers", "sources"),
    [
        ({}, [(A, -1), (B, -1)]),
        ({C: said(10)}, [(A, -1), (B, -1)]),
        ({A: said(60, complete=NO_BINS), B: said(50)}, [(A, 60), (B, 50)]),
        ({A: NoAnswer.LOST, B: said(50)}, []),
    ],
)
def test_a_reopened_store_asks_the_layers_of_its_record(layers, sources):
    decision = decide_opening(facts(own=[OwnStore(5, meta(90, 5), RECORD)], layers=layers))
    assert decision.record == RECORD
    assert [(source.layer, source.offset) for source in decision.sources] == sources


def test_a_deeper_layer_must_have_come_as_far_as_the_store_above_it_relies_on():
    above = replace(said(100, complete=NO_BINS, layers=[B, C]), beneath=80)
    below = replace(said(70, complete=NO_BINS, layers=[C]), beneath=50)
    decision = decide_opening(facts(layers={A: above, B: below, C: said(60)}))
    assert [(source.layer, source.least, source.wanted) for source in decision.sources] == [
        (A, -1, 100),
        (B, 80, 80),
        (C, 50, 60),
    ]


@pytest.mark.parametrize("layers", [{}, {A: said(30, complete=NO_BINS), B: said(20)}])
def test_a_reopened_store_relies_on_what_it_was_begun_with(layers):
    record = MigrationRecord((A, B), 95, NO_BINS.hex(), beneath=40)
    decision = decide_opening(facts(own=[OwnStore(5, meta(90, 5), record)], layers=layers))
    assert decision.sources[0].wanted == 40


def test_reasons_name_every_layer():
    decision = decide_opening(facts(layers={A: NoAnswer.LOST, B: said(80, age_ms=DAY), C: Description(None, b"", ())}))
    assert isinstance(decision, Replay)
    assert (
        "a@4: no such copy, or no answer for too long; b@3: the store's last commit is 86400000 ms old"
        in decision.reason
    )
    assert "c@2: nothing was ever written" in decision.reason
    decision = decide_opening(facts(layers={A: NoAnswer.LATER}))
    assert decision == AskAgain("a@4: refused for now")

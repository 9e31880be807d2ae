"""The making of a scratch base: once, again after a failure, and never left open."""

from __future__ import annotations

import pytest

from statemgr.errors import RestoreStalledError
from statemgr.migration.builder import ScratchBuilder
from tests.unit.statemgr.migration.world import Later, at_once


class Base:
    closed = 0

    def close(self):
        self.closed += 1


def test_it_is_made_once_and_given_once():
    base = Base()
    builder = ScratchBuilder(lambda: base, at_once, 5)
    assert builder.poll(0) is None
    builder.want(0)
    builder.want(0)
    assert builder.poll(0) is base
    assert builder.poll(0) is None
    builder.close()
    assert base.closed == 0  # it is the caller's


def test_a_failure_is_tried_again_after_a_while():
    tries = []

    def build():
        tries.append(1)
        raise RestoreStalledError("no leader")

    builder = ScratchBuilder(build, at_once, 5)
    for now_s in (0, 1, 4.9, 5, 6):
        builder.want(now_s)
        assert builder.poll(now_s) is None
    assert len(tries) == 2
    assert builder.error == "no leader"


def test_other_errors_are_the_callers():
    def build():
        raise ZeroDivisionError

    builder = ScratchBuilder(build, at_once, 5)
    builder.want(0)
    with pytest.raises(ZeroDivisionError):
        builder.poll(0)


@pytest.mark.parametrize("close_before_it_is_made", [True, False])
def test_one_that_nobody_takes_is_closed(close_before_it_is_made):
    base, made = Base(), []

    def spawn(work):
        running = Later(work, lambda: True)
        made.append(running)
        return running

    builder = ScratchBuilder(lambda: base, spawn, 5)
    builder.want(0)
    if close_before_it_is_made:
        builder.close()
        made[0].done()
    else:
        made[0].done()
        builder.close()
    assert base.closed == 1
    builder.want(100)
    assert len(made) == 1

import math

import numpy as np
import pytest

from nexmark.words import GAMMA, Draws, mix_in_place, modulo, prices

SEED = 42
MANY = np.arange(300_000, dtype=np.int64)


def test_mixing_gamma_gives_the_first_word_of_splitmix64():
    assert mix_in_place(np.array([GAMMA], dtype=np.uint64)).tolist() == [0xE220A8397B1DCDAF]


@pytest.mark.parametrize(
    ("event_id", "slot", "word"),
    [(0, 0, 0x57E1FABA65107204), (0, 1, 0xF4ABD143FEB24055), (1, 0, 0xFC991BCA1A1AA1AE)],
)
def test_words_are_those_of_the_definition(event_id, slot, word):
    assert Draws.of_events(SEED, np.array([event_id])).word(slot).tolist() == [word]


@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**64 + 42])
def test_any_integer_is_a_seed_modulo_2_to_the_64(seed):
    events = np.arange(5)
    expected = Draws.of_events(seed % 2**64, events).word(3)
    assert Draws.of_events(seed, events).word(3).tolist() == expected.tolist()


def test_a_draw_does_not_disturb_the_next_one():
    draws = Draws.of_events(SEED, np.arange(10))
    first = draws.word(1).tolist()
    draws.below(1, 7)
    draws.unit(1)
    draws.price(1)
    assert draws.word(1).tolist() == first


@pytest.mark.parametrize("limit", [1, 2, 3, 13, 10_000, 2**40 + 1])
def test_modulo_by_a_number_equals_modulo_by_a_column(limit):
    values = Draws.of_events(SEED, np.arange(1000)).half_word(0)
    assert modulo(values, limit).tolist() == modulo(values, np.full(1000, limit)).tolist()


def test_vectorised_prices_equal_the_rounding_of_the_c_library():
    draws = Draws.of_events(SEED, MANY)
    expected = [math.floor(100 * math.pow(10.0, 6 * u) + 0.5) for u in draws.unit(4).tolist()]
    assert draws.price(4).tolist() == expected


def test_a_price_on_the_edge_of_rounding_is_decided_by_the_c_library():
    halves = np.random.default_rng(SEED).integers(100, 100_000_000, 20_000) + 0.5
    units = np.log10(halves / 100) / 6
    expected = [math.floor(100 * math.pow(10.0, 6 * u) + 0.5) for u in units.tolist()]
    assert prices(units).tolist() == expected


def test_prices_are_log_uniform_between_one_and_a_million_dollars():
    cents = Draws.of_events(SEED, MANY).price(4)
    assert cents.min() >= 100
    assert cents.max() <= 100_000_000
    assert abs((cents < 10_000).mean() - 1 / 3) < 0.005
    assert abs((cents >= 1_000_000).mean() - 1 / 3) < 0.005
    assert abs(np.median(cents) / 100_000 - 1) < 0.05
    assert abs(cents.mean() / 7_238_234 - 1) < 0.02

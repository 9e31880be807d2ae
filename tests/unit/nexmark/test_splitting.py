import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexmark import GeneratorConfig, NexmarkError, generate_json, split

MODES = st.sampled_from(["interleaved", "block"])


@given(st.integers(0, 500), st.integers(1, 20), MODES)
def test_shares_are_disjoint_complete_and_even(total, n, mode):
    shares = [split(total, n, g, mode) for g in range(n)]
    indices = [i for start, count, step in shares for i in range(start, start + count * step, step)]
    assert sorted(indices) == list(range(total))
    assert max(count for _, count, _ in shares) - min(count for _, count, _ in shares) <= 1


@pytest.mark.parametrize("group", [1, 1000])
@pytest.mark.parametrize("mode", ["interleaved", "block"])
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_n_generators_make_the_stream_of_one_in_any_order(n, mode, group):
    total = 4000
    shares = (split(total, n, g, mode) for g in range(n))
    config = GeneratorConfig(out_of_order_group=group)
    lines = [line for share in shares for line in generate_json(config, *share).to_pylist()]
    assert sorted(lines) == sorted(generate_json(GeneratorConfig(), 0, total).to_pylist())


@pytest.mark.parametrize(("total", "n", "g"), [(-1, 1, 0), (1, 0, 0), (1, 2, 2), (1, 2, -1)])
def test_a_share_that_is_none_is_refused(total, n, g):
    with pytest.raises(NexmarkError, match="is no share"):
        split(total, n, g)


def test_an_unknown_mode_is_refused():
    with pytest.raises(NexmarkError, match="use 'interleaved' or 'block'"):
        split(1, 1, 0, "random")

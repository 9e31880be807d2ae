import hashlib

import pytest

from nexmark.pools import CHANNELS, HOT_CHANNELS, POOL_SIZE, channel_urls, pools_of

SEED = 42


@pytest.mark.parametrize(
    ("pool", "beginning", "digest"),
    # pragma: allowlist nextline secret
    [("text", b"amkpkuqceuxnronf", "58aaf2c42e41af49"), ("pad", b"dfpssewifzbizndg", "dd0f267c836b7184")],
)
def test_pools_are_those_of_the_definition(pool, beginning, digest):
    content = getattr(pools_of(SEED), pool).characters.tobytes()
    assert len(content) == POOL_SIZE
    assert content.startswith(beginning)
    assert hashlib.sha256(content).hexdigest().startswith(digest)


def test_urls_are_those_of_the_definition():
    urls = channel_urls(SEED)
    assert urls[0] == "https://www.nexmark.com/d__w/u_h/nhd_/item.htm?query=1&channel_id=0"
    assert urls[CHANNELS] == "https://www.nexmark.com/ijvj/xlf/_bgx/item.htm?query=1"


def test_nine_in_ten_numbered_channels_and_no_hot_one_have_an_id():
    urls = channel_urls(SEED)
    assert len(urls) == CHANNELS + len(HOT_CHANNELS)
    assert 0.88 < sum("&channel_id=" in url for url in urls[:CHANNELS]) / CHANNELS < 0.92
    assert not any("&channel_id=" in url for url in urls[CHANNELS:])


def test_the_smallest_32_bit_number_becomes_positive():
    url = next(urls[1] for seed in range(50) if "channel_id" in (urls := channel_urls(seed))[1])
    assert url.endswith("&channel_id=2147483648")


def test_tables_of_a_seed_are_made_once():
    assert pools_of(SEED) is pools_of(SEED)

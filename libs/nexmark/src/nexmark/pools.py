"""What is made once per seed: the text pools and the table of channels."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from nexmark.arrays import ByteArray, IntArray
from nexmark.text import Choices, Pool
from nexmark.words import Draws

POOL_SIZE = 1 << 20
"""Characters in each text pool."""

CHANNELS = 10_000
"""Numbered channels; the hot ones follow them in the table."""

HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")

_SEEDS_KEPT = 4
"""Seeds whose tables stay in memory, at about 4 MB each."""

_LETTERS = 26
_SPECIAL = 13
"""One character in 13 is the special one: a space in texts, an underscore in urls."""

_TEXT_SPECIAL_SLOT, _TEXT_SLOT, _PAD_SLOT = 64, 65, 66
_DIRECTORIES, _DIRECTORY_CHARS = 3, 4
_DIRECTORY_LENGTH_SLOT, _CHANNEL_ID_SLOT = 70, 79
_DIRECTORY_SPECIAL_SLOT, _DIRECTORY_LETTER_SLOT = 80, 110
_DIRECTORY_SLOTS = 8


@dataclass(frozen=True, slots=True)
class Pools:
    """Text shared by all events of a seed.

    Attributes:
        pad: Letters only.
        text: Letters and spaces.
        channels: Channel names, by entry of the channel table.
        urls: The url of each entry.
        channel_json: JSON of a bid from inside its channel's quotes to inside its padding's quotes.
    """

    pad: Pool
    text: Pool
    channels: Choices
    urls: Choices
    channel_json: Choices


@lru_cache(maxsize=_SEEDS_KEPT)
def pools_of(seed: int) -> Pools:
    """The pools of a seed, made at the first call (some 50 ms)."""
    draws = Draws.of_events(seed, np.arange(POOL_SIZE, dtype=np.int64))
    text = _letters(draws, _TEXT_SLOT)
    text[draws.below(_TEXT_SPECIAL_SLOT, _SPECIAL) == 0] = ord(" ")
    names = [f"channel-{i}" for i in range(CHANNELS)] + list(HOT_CHANNELS)
    urls = channel_urls(seed)
    return Pools(
        pad=Pool(_letters(draws, _PAD_SLOT)),
        text=Pool(text),
        channels=Choices(names),
        urls=Choices(urls),
        channel_json=Choices([f'{name}","url":"{url}","extra":"' for name, url in zip(names, urls, strict=True)]),
    )


def channel_urls(seed: int) -> list[str]:
    """The url of every entry of the channel table, numbered channels first."""
    entries = np.arange(CHANNELS + len(HOT_CHANNELS), dtype=np.int64)
    draws = Draws.of_events(seed, entries)
    directories = zip(*(_directories(draws, j) for j in range(_DIRECTORIES)), strict=True)
    has_id = (draws.below(_CHANNEL_ID_SLOT, 10) > 0) & (entries < CHANNELS)
    return [
        f"https://www.nexmark.com/{'/'.join(path)}/item.htm?query=1" + (f"&channel_id={channel_id}" if wanted else "")
        for path, wanted, channel_id in zip(directories, has_id, _channel_ids(entries), strict=True)
    ]


def _letters(draws: Draws, slot: int) -> ByteArray:
    return (draws.below(slot, _LETTERS) + ord("a")).astype(np.uint8)


def _directories(draws: Draws, j: int) -> list[str]:
    """Directory number ``j`` of every entry: 3 or 4 letters and underscores."""
    length = 3 + draws.below(_DIRECTORY_LENGTH_SLOT + j, 2)
    columns = []
    for c in range(_DIRECTORY_CHARS):
        slot = _DIRECTORY_SLOTS * j + c
        letters = _letters(draws, _DIRECTORY_LETTER_SLOT + slot)
        letters[draws.below(_DIRECTORY_SPECIAL_SLOT + slot, _SPECIAL) == 0] = ord("_")
        columns.append(letters)
    rows = np.column_stack(columns)
    return [row.tobytes()[:size].decode("ascii") for row, size in zip(rows, length, strict=True)]


def _channel_ids(entries: IntArray) -> list[int]:
    """Absolute value of the entry number with its 32 bits reversed and read as a signed number.

    Widened before the absolute value is taken, because the smallest 32-bit number has none.
    """
    bits = np.unpackbits(entries.astype("<u4").view(np.uint8), bitorder="little").reshape(-1, 32)
    reversed_bits = np.packbits(bits, axis=1, bitorder="big").view(">i4").ravel()
    ids: list[int] = np.abs(reversed_bits.astype(np.int64)).tolist()
    return ids

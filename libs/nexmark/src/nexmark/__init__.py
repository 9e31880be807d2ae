"""NEXMark: the event model of an online auction and a deterministic, vectorised generator of it."""

from nexmark.batches import MAX_EVENTS_PER_CALL
from nexmark.config import BASE_TIME_MS, GeneratorConfig
from nexmark.delays import delays_ms
from nexmark.errors import NexmarkError
from nexmark.events import (
    AUCTION_FIELDS,
    BID_FIELDS,
    EVENT_SCHEMA,
    EVENT_TYPES,
    FIELDS,
    FIRST_AUCTION_ID,
    FIRST_CATEGORY,
    FIRST_PERSON_ID,
    PERSON_FIELDS,
)
from nexmark.lines import KeyField, generate_json, keys
from nexmark.profile import RESCALE_SCALE_OUT_S, Profile, Segment
from nexmark.splitting import SplitMode, split
from nexmark.table import generate

__all__ = [
    "AUCTION_FIELDS",
    "BASE_TIME_MS",
    "BID_FIELDS",
    "EVENT_SCHEMA",
    "EVENT_TYPES",
    "FIELDS",
    "FIRST_AUCTION_ID",
    "FIRST_CATEGORY",
    "FIRST_PERSON_ID",
    "MAX_EVENTS_PER_CALL",
    "PERSON_FIELDS",
    "RESCALE_SCALE_OUT_S",
    "GeneratorConfig",
    "KeyField",
    "NexmarkError",
    "Profile",
    "Segment",
    "SplitMode",
    "delays_ms",
    "generate",
    "generate_json",
    "keys",
    "split",
]

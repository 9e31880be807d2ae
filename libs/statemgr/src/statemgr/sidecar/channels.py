"""Settings of the connections between newcomers and state managers, each with its arithmetic."""

from __future__ import annotations

MESSAGE_BYTES = 4 * 1024 * 1024
"""Largest message either way: four of the largest answers, or values of the largest size that a changelog takes."""

REQUEST_KEY_BYTES = 1024 * 1024
"""Keys in one look-up: what is over is asked for in the next."""

KEEPALIVE_MS = 10_000
"""Between two pings on a quiet connection: a holder that vanished without a word is noticed within 12 s."""

KEEPALIVE_TIMEOUT_MS = 2_000
"""For the answer to a ping."""

FIRST_RECONNECT_MS = 20
RECONNECT_MS = 200
"""Longest pause before a lost connection is tried again: below the deadline of a look-up (250 ms)."""

CONNECT_MS = 2_000
"""For one attempt to connect; a busy machine needs some tens of ms."""

CLIENT_OPTIONS = (
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", FIRST_RECONNECT_MS),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_MS),
    ("grpc.min_reconnect_backoff_ms", CONNECT_MS),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)
"""Of a newcomer. Retries are the caller's: it knows of other layers."""

SERVER_OPTIONS = (
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
)
"""Of a state manager. Without ``so_reuseport`` a port in use is an error, not shared."""

"""The broker's properties: what is decided, what may be changed, and how they are written."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.broker import BrokerSettingError
from towpath.broker.settings import (
    broker_settings,
    check_heap,
    controller_settings,
    logging_settings,
    parse_setting,
    render_properties,
)

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_TOKEN = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)|(.)", re.DOTALL)


def load_properties(text: str) -> dict[str, str]:
    """Reads what `java.util.Properties.load` reads, from its documentation (no continuation lines)."""
    loaded = {}
    for line in text.split("\n"):
        tokens = [_token(*found) for found in _TOKEN.findall(line.lstrip(" \t\f"))]
        if not tokens or tokens[0] in [("#", False), ("!", False)]:
            continue
        at = next(i for i, token in enumerate(tokens) if token in [("=", False), (":", False), (" ", False)])
        value = tokens[at + 1 :]
        while value and value[0] in [(" ", False), ("\t", False)]:
            value = value[1:]
        loaded[_utf16(tokens[:at])] = _utf16(value)
    return loaded


def _token(code: str, escaped: str, plain: str) -> tuple[str, bool]:
    if code:
        return chr(int(code, 16)), True
    return (_ESCAPES.get(escaped, escaped), True) if escaped else (plain, False)


def _utf16(tokens: list[tuple[str, bool]]) -> str:
    units = "".join(character for character, _ in tokens)
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def test_the_broker_listens_on_the_loopback_interface_only() -> None:
    settings = broker_settings(20001, 20002, {})
    addresses = re.findall(r"//([^:]+):", settings["listeners"] + settings["advertised.listeners"])
    assert set(addresses) == {"127.0.0.1"}


def test_the_controller_alone_is_the_same_node_and_serves_no_clients() -> None:
    whole, alone = broker_settings(20001, 20002, {}), controller_settings(20002, {"num.io.threads": "3"})
    for key in ("node.id", "controller.quorum.voters", "log.dirs"):
        assert alone[key] == whole[key]
    assert (alone["process.roles"], alone["listeners"]) == ("controller", "CONTROLLER://127.0.0.1:20002")
    assert not alone.keys() & {"advertised.listeners", "inter.broker.listener.name"}
    assert alone["num.io.threads"] == "3"


def test_topics_are_never_created_by_a_misspelt_name() -> None:
    assert broker_settings(20001, 20002, {})["auto.create.topics.enable"] == "false"


def test_every_internal_topic_asks_for_one_copy() -> None:
    settings = broker_settings(20001, 20002, {})
    replication = {key: value for key, value in settings.items() if key.endswith(("replication.factor", "min.isr"))}
    assert len(replication) == 5
    assert set(replication.values()) == {"1"}


def test_a_property_of_the_caller_wins_over_a_default() -> None:
    assert broker_settings(1, 2, {"offsets.topic.num.partitions": "50"})["offsets.topic.num.partitions"] == "50"


@pytest.mark.parametrize(
    "key",
    ["listeners", "advertised.listeners", "log.dirs", "log.dir", "metadata.log.dir", "node.id", "process.roles",
     "controller.quorum.voters", "controller.quorum.bootstrap.servers", "listener.name.plaintext.ssl.keystore.type"],
)  # fmt: skip
def test_what_makes_it_a_local_broker_cannot_be_changed(key: str) -> None:
    with pytest.raises(BrokerSettingError, match=f"^{re.escape(key)} can't be set here: .*--port and --data$"):
        broker_settings(1, 2, {key: "x"})


@pytest.mark.parametrize("key", ["", "a b", "=", "näme", "#comment"])
def test_a_name_that_no_property_can_have_is_refused(key: str) -> None:
    with pytest.raises(BrokerSettingError, match="isn't the name of a broker property"):
        broker_settings(1, 2, {key: "x"})


def test_a_setting_is_split_at_its_first_equals_sign() -> None:
    assert parse_setting("sasl.jaas.config = a=b ") == ("sasl.jaas.config", "a=b")


def test_a_setting_without_equals_sign_is_refused_with_an_example() -> None:
    with pytest.raises(BrokerSettingError, match=r"^'num\.io\.threads' isn't key=value: write for example"):
        parse_setting("num.io.threads")


@pytest.mark.parametrize("heap", ["128m", "512m", "1G", "262144k"])
def test_a_heap_that_a_broker_can_live_in_is_accepted(heap: str) -> None:
    check_heap(heap)


@pytest.mark.parametrize("heap", ["", "512", "m", "1.5g", "-1g", "512mb", "512m -XX:+Evil"])
def test_a_malformed_heap_is_refused_with_an_example(heap: str) -> None:
    with pytest.raises(BrokerSettingError, match=r"isn't a heap size: write for example 512m or 2g$"):
        check_heap(heap)


@pytest.mark.parametrize("heap", ["127m", "1k"])
def test_a_heap_too_small_is_refused_with_the_least_one(heap: str) -> None:
    with pytest.raises(BrokerSettingError, match=f"^a heap of {heap} is too small: a broker needs 128m or more$"):
        check_heap(heap)


def test_the_log_is_bounded_and_the_terminal_stays_quiet() -> None:
    settings = logging_settings("broker.log")
    assert settings["status"] == "off"
    assert not [value for value in settings.values() if value == "Console"]
    size, old_files = (int(settings[f"appender.file.{key}"]) for key in ("policies.size.size", "strategy.max"))
    assert size * (old_files + 1) <= 48 << 20


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("plain", "k=plain\n"),
        (" leading", "k=\\ leading\n"),
        ("back\\slash", "k=back\\\\slash\n"),
        ("two\nlines", "k=two\\nlines\n"),
        ("ü", "k=\\u00fc\n"),
        ("😀", "k=\\ud83d\\ude00\n"),
        ("a=b:c #d", "k=a=b:c #d\n"),
    ],
)
def test_values_are_escaped_as_java_reads_them(value: str, line: str) -> None:
    assert render_properties({"k": value}) == line


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8"))))
def test_java_reads_back_what_was_rendered(settings: dict[str, str]) -> None:
    rendered = render_properties(settings)
    assert rendered.isascii()
    assert load_properties(rendered) == settings

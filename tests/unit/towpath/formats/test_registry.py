"""A registry that judges a record and one that does not answer are told apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from statemgr.testing.kafka import ManualClock
from tests.harness.schema_registry import SchemaRegistry
from tests.unit.towpath.formats.writing import record, registry_of, written
from towpath.errors import RegistryUnavailableError, StageStoppedError
from towpath.formats.framing import UnknownSchemaError
from towpath.formats.registry import FIRST_PAUSE_S, LAST_PAUSE_S, UNKNOWN_S


@pytest.fixture
def service() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def test_a_schema_that_the_registry_does_not_have_is_a_judgement_and_is_remembered_for_a_while(
    service: SchemaRegistry,
) -> None:
    clock = ManualClock()
    registry = registry_of(service, clock)
    for _ in range(3):
        with pytest.raises(UnknownSchemaError, match=f"{service.url} has no schema 7"):
            registry.schema(7)
    assert len(service.asked) == 1
    for _ in range(7):
        service.register("s", f'"string{len(service.schemas)}"')
    clock.advance(UNKNOWN_S)
    assert registry.schema(7).schema_str == '"string6"'


NO_ANSWERS = {
    "no schemas there": ((404, {"error_code": 404, "message": "HTTP 404 Not Found"}), "does not answer as one"),
    "another service": ((404, {"detail": "Not Found"}), "does not answer as one"),
    "a page": ((200, b"<html>Welcome</html>"), "does not answer as one"),
    "a broken service": (
        (500, {"error_code": 50001, "message": "Error in the backend data store"}),
        "backend data store",
    ),
    "a service that is busy": ((429, {"error_code": 42901, "message": "Too many requests"}), "Too many requests"),
    "a refusal": ((403, {"error_code": 40301, "message": "Forbidden"}), "refuses this client: Forbidden"),
}


@pytest.mark.parametrize("kind", NO_ANSWERS)
def test_anything_but_a_judgement_is_no_answer(service: SchemaRegistry, kind: str) -> None:
    service.answer, reason = NO_ANSWERS[kind]
    with pytest.raises(RegistryUnavailableError, match=reason) as caught:
        registry_of(service).schema(7)
    assert caught.value.refused == (kind == "a refusal")


def test_a_registry_that_is_not_there_is_named_and_asked_again_after_growing_pauses(service: SchemaRegistry) -> None:
    clock = ManualClock()
    registry = registry_of(service, clock)
    service.stop()
    pauses = []
    for _ in range(6):
        with pytest.raises(RegistryUnavailableError, match=service.url) as caught:
            registry.check()
        pauses.append(round(caught.value.again_s - clock.monotonic_s(), 3))
        clock.advance(pauses[-1])
    assert pauses == [FIRST_PAUSE_S, 2.0, 4.0, 8.0, LAST_PAUSE_S, LAST_PAUSE_S]
    service.start()
    registry.check()
    service.stop()
    with pytest.raises(RegistryUnavailableError) as again:
        registry.check()
    assert round(again.value.again_s - clock.monotonic_s(), 3) == FIRST_PAUSE_S


def test_until_then_nobody_is_asked(service: SchemaRegistry) -> None:
    registry = registry_of(service)
    service.answer = (503, {"error_code": 50301, "message": "starting"})
    for _ in range(3):
        with pytest.raises(RegistryUnavailableError):
            registry.schema(1)
    assert len(service.asked) == 1


def test_a_schema_that_the_registry_does_not_take_stops_the_stage_with_the_remedy(service: SchemaRegistry) -> None:
    service.answer = (409, {"error_code": 409, "message": "Schema being registered is incompatible"})
    registry = registry_of(service)
    with pytest.raises(StageStoppedError, match=r"schema of t-value: .* incompatible .*write to another topic"):
        registry.publish("t-value", lambda: written(service, record({"x": "int"}), {"x": 1}), register=True)


def test_credentials_are_sent_and_those_that_are_wrong_are_a_refusal(service: SchemaRegistry) -> None:
    service.user_info = "me:secret"
    with pytest.raises(RegistryUnavailableError, match="refuses this client") as caught:
        registry_of(service).check()
    assert caught.value.refused
    assert "secret" not in str(caught.value)

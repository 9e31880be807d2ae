"""The images: how large they are, who runs in them, and that they need neither a network nor to write to themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.compose import TAG, docker
from tests.harness.waiting import wait_for

pytestmark = [pytest.mark.compose, pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.usefixtures("images")]

MB = 1_000_000
MOST_MB = {"stage": 500, "coordinator": 250, "statemgr": 250, "spark": 1100}
ALONE = ("--network", "none", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--env", "TOWPATH_INSECURE=true")
"""How a container is run that needs nothing from outside, and changes nothing in its image."""

CONNECTOR = (
    "from loadgen.session import start_session, stop_session; import matplotlib.pyplot, pyarrow.parquet; "
    "s = start_session(); s._jvm.java.lang.Class.forName('org.apache.spark.sql.kafka010.KafkaSourceProvider'); "
    "print(s.range(3).toPandas().id.sum()); stop_session(s)"
)
SCALE = Path(__file__).parent / "in_containers" / "scale.py"
SCALE_OF_COUNT = "/apis/apps/v1/namespaces/towpath/statefulsets/count/scale"
TRACES = "from towpath.tracing.otel import exporting_to; exporting_to('http://127.0.0.1:9/v1/traces', 'test', {})"
HEALTHY_S = 60.0


def image_of(name: str) -> str:
    """An image that was built for these tests."""
    return f"towpath/{name}:{TAG}"


@pytest.mark.parametrize("image", MOST_MB)
def test_an_image_is_not_larger_than_it_should_be(image: str) -> None:
    size = int(docker("image", "inspect", "--format", "{{.Size}}", image_of(image)))
    print(f"{image}: {size / MB:.0f} MB")
    assert size <= MOST_MB[image] * MB


@pytest.mark.parametrize("image", MOST_MB)
def test_nobody_in_an_image_is_root(image: str) -> None:
    assert docker("run", "--rm", *ALONE, "--entrypoint", "id", image_of(image), "-u").strip() == "10001"
    assert docker("image", "inspect", "--format", "{{.Config.User}}", image_of(image)).strip() == "10001:10001"


def test_a_stage_has_every_query_of_the_repository_without_a_network() -> None:
    assert "count ×1" in docker("run", "--rm", *ALONE, image_of("stage"), "plan", "queries.key_count")


def test_the_coordinator_knows_the_queries_although_it_has_no_polars() -> None:
    """It gets as far as looking for the broker."""
    run = ("run", "--rm", *ALONE, "--entrypoint", "sh", image_of("coordinator"), "-c")
    assert docker(*run, "python -c 'import polars' 2>&1 | grep -c ModuleNotFound; true").strip() == "1"
    said = docker(*run, "towpath coordinator queries.q5 -o wait_s=1 2>&1; echo status $?")
    assert "status 1" in said
    assert "127.0.0.1:9092" in said
    said = docker(*run, "towpath coordinator my.query 2>&1; echo status $?")
    assert "my.query can't be planned here, where Polars is not installed" in said
    assert "status 2" in said


def test_the_coordinator_scales_by_what_is_left_of_the_client_of_kubernetes() -> None:
    run = ("run", "--rm", *ALONE, "--entrypoint", "python", image_of("coordinator"), "-c", SCALE.read_text())
    assert docker(*run).split() == ["2", "GET", SCALE_OF_COUNT, "PATCH", SCALE_OF_COUNT]


@pytest.mark.parametrize("image", ["stage", "coordinator"])
def test_hand_overs_can_be_traced(image: str) -> None:
    docker("run", "--rm", *ALONE, "--entrypoint", "python", image_of(image), "-c", TRACES)


def test_spark_has_its_kafka_connector_without_a_network() -> None:
    run = ("run", "--rm", *ALONE, "--entrypoint", "python", image_of("spark"), "-c", CONNECTOR)
    assert docker(*run).split() == ["3"]


def test_a_state_manager_serves_by_itself_and_ends_when_asked() -> None:
    serve = ("serve", "--app", "app", "--replica", "count-0", "--state-dir", "/state/app/count-0")
    container = docker("run", "--detach", *ALONE, image_of("statemgr"), *serve).strip()
    try:
        wait_for(
            "the state manager is healthy",
            lambda: docker("inspect", "--format", "{{.State.Health.Status}}", container).strip() == "healthy",
            HEALTHY_S,
            lambda: docker("logs", container),
        )
        docker("stop", container)
        assert docker("inspect", "--format", "{{.State.ExitCode}}", container).strip() == "0"
    finally:
        docker("rm", "--force", "--volumes", container)

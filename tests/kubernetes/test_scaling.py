"""Scaling by kubectl and by the coordinator: with its account's own rights, and with everything running for real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from tests.harness.deployment import await_worked_off, read_outputs
from tests.harness.load import Load, create_topic
from tests.harness.manifests import DEPLOY
from tests.harness.processes import REPOSITORY
from tests.harness.reference import bids_of, compare_state, final_counts
from tests.harness.waiting import wait_for
from tests.kubernetes.cluster import TOKEN, Cluster, render
from tests.kubernetes.kubelet import Kubelet, environment_of
from towpath.broker import LocalBroker
from towpath.coordinator.client import CoordinatorClient
from towpath.coordinator.errors import CoordinatorError, PlatformError
from towpath.coordinator.statefulsets import StatefulSets, stateful_sets
from towpath.coordinator.statuses import StageStatus
from towpath.query.loading import load_query

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),  # a cluster for tests may have no authority
]

COORDINATOR = "127.0.1.1"
URL = f"http://{COORDINATOR}:7070"
ACCOUNT = "towpath-coordinator"
SETTLE_LIMIT_S = 90.0
LEAVE_LIMIT_S = 120.0
EVENTS_PER_S = 1000


@pytest.fixture(scope="module")
def applied(shared_cluster: Cluster) -> Cluster:
    """The key count, without any setting that names a Kafka."""
    objects = render(DEPLOY / "key-count")
    (settings,) = (document for document in objects if document["kind"] == "ConfigMap")
    settings["data"]["TOWPATH_COORDINATOR"] = URL
    shared_cluster.apply(objects)
    return shared_cluster


@pytest.fixture
def account(applied: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> client.ApiClient:
    """A client with the coordinator's rights, which are also those of whoever reads the default kubeconfig here."""
    path = str(applied.kubeconfig(ACCOUNT, tmp_path))
    monkeypatch.setattr(config.kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", path)
    return config.new_client_from_config(path)


@pytest.fixture
def sets(applied: Cluster, account: client.ApiClient) -> StatefulSets:
    """As the coordinator asks for them; one counter is to run."""
    applied("scale", "statefulset/count", "--replicas=1")
    return stateful_sets(None, "{stage}")


def test_the_coordinator_s_account_reads_and_changes_the_number_of_its_stages(
    applied: Cluster, sets: StatefulSets
) -> None:
    assert sets.read("count") == 1
    sets.write("count", 1, 3)
    assert sets.read("count") == 3


def test_a_number_that_somebody_else_has_set_meanwhile_is_not_overwritten(applied: Cluster, sets: StatefulSets) -> None:
    sets.write("count", 1, 2)
    with pytest.raises(PlatformError, match="count"):
        sets.write("count", 1, 3)
    assert sets.read("count") == 2


def test_a_set_of_none_is_read_and_started_again(applied: Cluster, sets: StatefulSets) -> None:
    sets.write("count", 1, 0)
    assert sets.read("count") == 0
    sets.write("count", 0, 1)
    assert sets.read("count") == 1


def test_what_the_account_may_not_do_is_refused_with_the_remedy(
    applied: Cluster, sets: StatefulSets, account: client.ApiClient
) -> None:
    with pytest.raises(PlatformError, match=r"forbidden.*needs get and patch"):
        sets.read("other")
    apps, core = client.AppsV1Api(account), client.CoreV1Api(account)
    forbidden: list[Callable[[], Any]] = [
        lambda: apps.delete_namespaced_stateful_set("count", applied.namespace),
        lambda: apps.patch_namespaced_stateful_set("count", applied.namespace, {"spec": {"replicas": 9}}),
        lambda: apps.list_namespaced_stateful_set(applied.namespace),
        lambda: apps.read_namespaced_stateful_set_scale("count", "default"),
        lambda: core.list_namespaced_pod(applied.namespace),
        lambda: core.read_namespaced_secret("towpath-token", applied.namespace),
    ]
    for request in forbidden:
        with pytest.raises(ApiException) as refused:
            request()
        assert refused.value.status == 403


class Running:
    """The whole application in pods."""

    def __init__(self, cluster: Cluster, broker: LocalBroker, kubelet: Kubelet) -> None:
        self.cluster = cluster
        self.broker = broker
        self.kubelet = kubelet
        self.client = CoordinatorClient(URL, token=TOKEN)
        self._token_file = kubelet.work_dir / "token"

    def count(self) -> StageStatus | None:
        """What the coordinator says of the counters; None while it does not answer."""
        try:
            return next(stage for stage in self.client.topology().stages if stage.stage == "count")
        except CoordinatorError:
            return None

    def until(self, what: str, look: Callable[[], Any], limit_s: float = SETTLE_LIMIT_S) -> None:
        """Let pods come and go until something is so."""

        def sync_and_look() -> Any:
            self.kubelet.sync()
            return look()

        wait_for(what, sync_and_look, limit_s, lambda: f"{self.count()}\n{self.kubelet.describe()}")

    def await_counters(self, count: int) -> None:
        """Until exactly so many counters run, and all tasks where they should."""
        names = [f"count-{number}" for number in range(count)]

        def look() -> bool:
            status = self.count()
            there = sorted(name for name in self.kubelet.pods if name.startswith("count-"))
            return (
                status is not None
                and (status.members, there) == (names, names)
                and (status.settled, status.desired) == (True, count)
            )

        self.until(f"{count} counters", look, LEAVE_LIMIT_S)

    def command(self, *arguments: str) -> str:
        """Run a ``towpath`` command while pods come and go."""
        line = [sys.executable, "-m", "towpath.cli", *arguments, "--coordinator", URL]
        self._token_file.write_text(TOKEN)
        with subprocess.Popen(
            line,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, "TOWPATH_TOKEN_FILE": str(self._token_file)},
        ) as process:
            self.until(f"towpath {arguments[0]}", lambda: process.poll() is not None, LEAVE_LIMIT_S)
            said = process.stdout.read() if process.stdout is not None else ""
        assert process.returncode == 0, f"{said}\n{self.kubelet.describe()}"
        return said


@pytest.fixture
def running(applied: Cluster, own_broker: LocalBroker, tmp_path: Path) -> Iterator[Running]:
    """Coordinator, source and counter over a broker of their own."""
    if not applied.only_pretends():
        pytest.skip("nodes of this cluster run pods themselves, and no image of this checkout is there")
    applied("scale", "statefulset/count", "--replicas=1")
    create_topic(own_broker.bootstrap, "nexmark-events", 8)
    environment = environment_of(own_broker.bootstrap, applied.kubeconfig(ACCOUNT, tmp_path), tmp_path)
    kubelet = Kubelet(applied, tmp_path / "pods", environment, {"coordinator-": COORDINATOR})
    made = Running(applied, own_broker, kubelet)
    applied("delete", "job", "topics", "--ignore-not-found")
    subprocess.run(
        [sys.executable, "-m", "towpath.cli", "topics", "queries.key_count", "--bootstrap", own_broker.bootstrap],
        check=True,
        capture_output=True,
        cwd=REPOSITORY,
        timeout=60,
    )
    try:
        made.await_counters(1)
        yield made
    finally:
        kubelet.close()


def test_counters_come_and_go_by_kubectl_and_by_the_coordinator_and_no_count_is_lost(running: Running) -> None:
    with Load(running.broker.bootstrap, "nexmark-events", rate=EVENTS_PER_S) as load:
        running.cluster("scale", "statefulset/count", "--replicas=3")
        running.await_counters(3)

        running.command("scale", "count=1", "--wait", "--timeout", "60")
        running.await_counters(1)
        assert running.cluster.size("count") == 1

        running.command("scale", "count=2", "--wait", "--timeout", "60")
        running.await_counters(2)
        assert running.cluster.size("count") == 2

        running.cluster("scale", "statefulset/count", "--replicas=1")
        running.await_counters(1)
        load.stop()
        bids = bids_of(load.values())

    left = {pod.name: pod.statuses() for pod in running.kubelet.ended}
    assert set(left) == {"count-1", "count-2"}
    assert {status for statuses in left.values() for status in statuses.values()} == {0}, left
    plan = load_query("queries.key_count")
    await_worked_off(plan, running.broker.bootstrap, running.kubelet.describe)
    outputs = read_outputs(running.broker.bootstrap, "key-count")
    seen = [(row["auction"], row["count"]) for row in outputs]
    assert len(set(seen)) == len(seen), "a count was put out twice"
    compare_state({str(auction): count for auction, count in sorted(seen)}, final_counts(bids))

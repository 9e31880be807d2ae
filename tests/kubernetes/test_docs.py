"""The commands of docs/kubernetes.md, in order, as far as nodes that only pretend let them run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.harness.manifests import DEPLOY, doc_commands, documents
from tests.harness.processes import REPOSITORY
from tests.kubernetes.cluster import NAMESPACE, Cluster, render

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NEED_CONTAINERS = ("logs", "port-forward")
FILES = ("kafka.properties", "kafka-ca.crt", "tls.crt", "tls.key", "ca.crt")


def run(cluster: Cluster, line: str) -> None:
    """One command in the namespace of the test; what the page's namespace has anyway is there already."""
    words = shlex.split(line.replace('"$(openssl rand -hex 32)"', "0123456789abcdef0123456789abcdef"))[1:]
    words = words[2:] if words[:2] == ["-n", NAMESPACE] else words
    if "-k" in words:
        objects = render(REPOSITORY / words[words.index("-k") + 1])
        cluster.apply(objects, *(["--dry-run=server"] if words[0] == "diff" else []))
    elif "-f" in words:
        cluster.apply(documents((REPOSITORY / words[words.index("-f") + 1]).read_text()))
    elif words[:2] == ["delete", "namespace"]:
        cluster("delete", "namespace", cluster.namespace)
        cluster.apply(documents((DEPLOY / "base/namespace.yaml").read_text()))
    else:
        cluster(*words)


def test_the_page_s_commands_do_what_they_say(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not cluster.only_pretends():
        pytest.skip("nodes of this cluster run pods themselves, and no image of this checkout is there")
    cluster("delete", "secret", "towpath-token")
    for name in FILES:
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    lines = [line for line in doc_commands() if line.startswith("kubectl ")]
    for line in lines:
        if not any(word in line for word in NEED_CONTAINERS):
            run(cluster, line.partition(" | ")[0])
    secrets = {each["metadata"]["name"] for each in cluster.get("secrets")["items"]}
    assert {"towpath-token", "towpath-kafka", "towpath-tls"} <= secrets
    assert len(lines) > 15

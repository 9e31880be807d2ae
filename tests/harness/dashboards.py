"""What the shipped dashboards and alerts ask Prometheus."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"


def dashboards() -> dict[str, dict[str, Any]]:
    """Name → dashboard, as Grafana reads it."""
    return {
        path.stem: json.loads(path.read_text()) for path in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
    }


def panel_queries(window: str = "5m") -> dict[str, str]:
    """Where it stands → PromQL of every panel, with the variables replaced as for "All"."""
    return {
        f"{name}: {panel['title']} ({target['refId']})": _plain(target["expr"], window)
        for name, dashboard in dashboards().items()
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }


def variable_queries() -> dict[str, str]:
    """Where it stands → what the variables of the dashboards are looked up in."""
    return {
        f"{name}: ${variable['name']}": _plain(variable["query"], "5m")
        for name, dashboard in dashboards().items()
        for variable in dashboard["templating"]["list"]
    }


def alert_queries() -> dict[str, str]:
    """Alert → its expression."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def _plain(query: str, window: str) -> str:
    return re.sub(r"\$(stage|replica)\b", ".*", query.replace("$__rate_interval", window))

"""Who is answered over HTTP: every route of every application, asked by strangers."""

from __future__ import annotations

import itertools
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from statemgr.clock import SystemClock
from statemgr.errors import SecurityError
from statemgr.security import Credentials, Tls
from statemgr.security.tls import client_context
from tests.harness.certificates import Authority
from tests.unit.towpath.coordinator.application import STAGE, Application
from tests.unit.towpath.stage.plans import SOURCE, count_stage
from towpath.coordinator.client import CoordinatorClient
from towpath.coordinator.errors import CoordinatorUnavailableError, RefusedError
from towpath.coordinator.http import application as coordinator_application
from towpath.guard import OPEN_PATHS
from towpath.stage.health import HttpServer
from towpath.stage.health import application as stage_application
from towpath.testing import StageDriver

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "0123456789abcdef"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
STRANGERS: dict[str, list[tuple[str, str]]] = {
    "no token": [],
    "a wrong token": [("Authorization", f"Bearer {TOKEN[:-1]}x")],
    "half a token": [("Authorization", f"Bearer {TOKEN[:8]}")],
    "another scheme": [("Authorization", f"Basic {TOKEN}")],
    "two headers": [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")],
    "the token elsewhere": [("Token", TOKEN), ("Cookie", f"token={TOKEN}")],
}


def coordinator() -> Starlette:
    application = Application()
    application.add("count-0")
    application.settle()
    return coordinator_application(application.heard_by, SystemClock(), 1e9)


def stage() -> Starlette:
    driver = StageDriver(count_stage(), replicas={"count": 1}, partitions={SOURCE: 1})
    driver.run_until_idle()
    process = driver.process("count")
    assert process.replica is not None
    return stage_application(process.replica, process.metrics, SystemClock(), 1e9)


APPLICATIONS = {"coordinator": coordinator, "stage": stage}


def requests(app: Starlette) -> list[tuple[str, str]]:
    """Method and path of everything that an application answers."""
    routes = [route for route in app.routes if isinstance(route, Route) or hasattr(route, "methods")]
    assert len(routes) == len(app.routes), "a route of a kind that this test does not know"
    return [(method, _filled(route.path)) for route in routes for method in sorted(route.methods or ())]


def _filled(path: str) -> str:
    return re.sub(r"{[^}]*}", lambda found: STAGE if "stage" in found[0] else "count-0", path)


Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves an application on loopback; gives its URL."""
    started: list[HttpServer] = []

    def start(app: Starlette, credentials: Credentials) -> str:
        started.append(HttpServer(app, "127.0.0.1", 0, credentials))
        scheme = "http" if credentials.tls is None else "https"
        return f"{scheme}://127.0.0.1:{started[-1].start()}"

    yield start
    for server in started:
        server.stop()


@pytest.mark.parametrize("make", APPLICATIONS.values(), ids=APPLICATIONS)
def test_every_route_but_probes_refuses_strangers(serve: Serve, make: Callable[[], Starlette]) -> None:
    app = make()
    asked = requests(app)
    assert len(asked) >= 4
    url = serve(app, Credentials((TOKEN,)))
    with httpx.Client(base_url=url) as http:
        for (method, path), (who, headers) in itertools.product(asked, STRANGERS.items()):
            answer = http.request(method, path, headers=headers, content=b"\xff")
            if path in OPEN_PATHS and method in {"GET", "HEAD"}:
                assert answer.status_code == 200, (method, path, who)
                continue
            assert answer.status_code == 401, (method, path, who)
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert method == "HEAD" or "TOWPATH_TOKEN_FILE" in answer.json()["detail"]
        for method, path in [*asked, ("GET", "/nothing"), ("POST", "/nothing")]:
            assert http.request(method, path, headers=RIGHT).status_code != 401, (method, path)
        for path in ("/nothing", "/health/x", "/HEALTH", "//health", "/health/../tasks", "/tasks?/health"):
            assert http.get(path).status_code == 401, path
        assert http.post("/health").status_code == 401


@pytest.mark.parametrize("make", APPLICATIONS.values(), ids=APPLICATIONS)
def test_the_page_about_security_names_every_route(make: Callable[[], Starlette]) -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    for route in make().routes:
        assert f"{route.path}`" in page, f"docs/security.md does not say what {route.path} may do"


def test_without_credentials_everything_is_answered_on_loopback(serve: Serve) -> None:
    url = serve(stage(), Credentials())
    assert httpx.get(f"{url}/tasks").status_code == 200


def test_outside_loopback_nothing_is_served_without_credentials() -> None:
    with pytest.raises(SecurityError, match=r"would listen at 0\.0\.0\.0"):
        HttpServer(stage(), "0.0.0.0", 0)
    HttpServer(stage(), "0.0.0.0", 0, Credentials((TOKEN,)))
    HttpServer(stage(), "0.0.0.0", 0, Credentials(insecure=True))


# --- pages of the web ---


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.7", "[", ""])
def test_on_loopback_without_credentials_a_name_that_is_not_local_is_refused(serve: Serve, host: str) -> None:
    url = serve(coordinator(), Credentials())
    answer = httpx.get(f"{url}/topology", headers={"Host": host})
    assert answer.status_code == 403
    assert httpx.get(f"{url}/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:7070", "127.8.8.8"])
def test_local_names_are_answered(serve: Serve, host: str) -> None:
    assert httpx.get(f"{serve(coordinator(), Credentials())}/topology", headers={"Host": host}).status_code == 200


def test_with_credentials_any_name_will_do(serve: Serve) -> None:
    url = serve(coordinator(), Credentials((TOKEN,)))
    assert httpx.get(f"{url}/topology", headers={**RIGHT, "Host": "coordinator:7070"}).status_code == 200


@pytest.mark.parametrize("credentials", [Credentials(), Credentials((TOKEN,))], ids=["open", "token"])
def test_a_page_of_another_origin_changes_nothing(serve: Serve, credentials: Credentials) -> None:
    url = serve(coordinator(), credentials)
    path = f"{url}/replicas/{STAGE}/count-0/died"
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        assert httpx.post(path, headers={**RIGHT, "Origin": origin}).status_code == 403, origin
    assert httpx.post(path, headers={**RIGHT, "Origin": url}).status_code == 200


# --- certificates ---


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
def tls(authority: Authority) -> Tls:
    return authority.issue("service", "127.0.0.1")


def ask(url: str, path: str, context: ssl.SSLContext, **options: Any) -> httpx.Response:
    with httpx.Client(verify=context) as http:
        return http.get(f"{url}{path}", **options)


@pytest.mark.parametrize("make", APPLICATIONS.values(), ids=APPLICATIONS)
def test_every_route_but_probes_needs_a_certificate_of_the_authority(
    serve: Serve, tls: Tls, tmp_path: Path, make: Callable[[], Starlette]
) -> None:
    app = make()
    url = serve(app, Credentials(tls=tls))
    without = ssl.create_default_context(cafile=str(tls.ca))
    with httpx.Client(base_url=url, verify=without) as http:
        for method, path in requests(app):
            status = http.request(method, path, headers=RIGHT).status_code
            assert status == (200 if path in OPEN_PATHS and method in {"GET", "HEAD"} else 401), (method, path)
    with httpx.Client(base_url=url, verify=client_context(tls)) as http:
        for method, path in requests(app):
            assert http.request(method, path).status_code != 401, (method, path)
    theirs = replace(Authority(tmp_path / "theirs").issue("stranger", "127.0.0.1"), ca=tls.ca)
    for path in ("/tasks", "/health"):
        with pytest.raises(httpx.TransportError):
            ask(url, path, client_context(theirs))
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url}{path}".replace("https", "http"))


def test_with_both_a_caller_needs_both(serve: Serve, tls: Tls) -> None:
    url = serve(stage(), Credentials((TOKEN,), tls))
    with_certificate = client_context(tls)
    assert ask(url, "/tasks", with_certificate).status_code == 401
    assert ask(url, "/tasks", with_certificate, headers=RIGHT).status_code == 200
    assert ask(url, "/tasks", ssl.create_default_context(cafile=str(tls.ca)), headers=RIGHT).status_code == 401


def test_a_header_that_claims_a_certificate_is_none(serve: Serve, tls: Tls) -> None:
    url = serve(stage(), Credentials(tls=tls))
    claims = {"X-Client-Cert": tls.cert.read_text().strip().replace("\n", " "), "X-Forwarded-Client-Cert": "By=x"}
    answer = ask(url, "/tasks", ssl.create_default_context(cafile=str(tls.ca)), headers=claims)
    assert answer.status_code == 401


# --- the client ---


def test_the_coordinator_s_client_shows_what_it_has(serve: Serve, tls: Tls) -> None:
    credentials = Credentials((TOKEN,), tls)
    url = serve(coordinator(), credentials)
    with CoordinatorClient(url.removeprefix("https://"), credentials=credentials) as client:
        assert client.url == url
        assert client.topology().leading
    with CoordinatorClient(url, credentials=Credentials(("x" * 16,), tls)) as client:
        assert client.health().leading
        with pytest.raises(RefusedError, match="name the file of the services' token by TOWPATH_TOKEN_FILE"):
            client.topology()


def test_the_client_takes_no_coordinator_of_another_authority_or_name(
    serve: Serve, authority: Authority, tls: Tls, tmp_path: Path
) -> None:
    for wrong in (Authority(tmp_path / "theirs").issue("x", "127.0.0.1"), authority.issue("y", "elsewhere")):
        url = serve(coordinator(), Credentials(tls=wrong))
        refused = pytest.raises(CoordinatorUnavailableError, match="CERTIFICATE_VERIFY_FAILED")
        with CoordinatorClient(url, credentials=Credentials(tls=tls)) as client, refused:
            client.topology()


def test_one_name_may_be_in_the_certificates_of_all(serve: Serve, authority: Authority) -> None:
    named = replace(authority.issue("all", "services.towpath"), name="services.towpath")
    url = serve(coordinator(), Credentials(tls=named))
    with CoordinatorClient(url, credentials=Credentials(tls=named)) as client:
        assert client.topology().leading


def test_where_there_are_certificates_nothing_is_said_without_tls(tls: Tls) -> None:
    with pytest.raises(SecurityError, match="TLS is set up: write https://"):
        CoordinatorClient("http://127.0.0.1:7070", credentials=Credentials((TOKEN,), tls))

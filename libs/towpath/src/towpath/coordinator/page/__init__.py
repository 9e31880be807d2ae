"""A page about latency and migrations, for people: one file without anything from elsewhere, that asks for JSON."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple


class Page(NamedTuple):
    """The page, and the policy under which a browser runs nothing in it but its own script."""

    html: str
    policy: str


@cache
def page() -> Page:
    """The page as it is served."""
    here = files(__name__)
    html, style, script = (here.joinpath(name).read_text("utf-8") for name in ("page.html", "page.css", "page.js"))
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return Page(
        html.replace("/*STYLE*/", style).replace("/*SCRIPT*/", script),
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    )

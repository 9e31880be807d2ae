"""What the services of an application show each other: a token, certificates, or both.

They come from files that the environment names. Every process reads the same variables, which go down to the processes
that it starts, so that no secret stands on a command line. What is configured is demanded of every caller, and shown to
every service that is called.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from statemgr.errors import SecurityError
from statemgr.security.tls import Tls, client_context

TOKEN_FILE = "TOWPATH_TOKEN_FILE"  # noqa: S105 - the name of a variable
TLS_CERT = "TOWPATH_TLS_CERT"
TLS_KEY = "TOWPATH_TLS_KEY"
TLS_CA = "TOWPATH_TLS_CA"
TLS_NAME = "TOWPATH_TLS_NAME"
INSECURE = "TOWPATH_INSECURE"

SHORTEST_TOKEN = 16
"""Characters: 64 random bits in hexadecimal. More is better, less can be guessed."""

_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True)
class Credentials:
    """What is shown to services, and demanded of callers.

    Attributes:
        tokens: each of them is taken, the first one is shown; empty: no token is demanded.
        tls: certificates; None: connections are neither encrypted nor authenticated by themselves.
        insecure: the operator has said that nothing is needed outside loopback.
    """

    tokens: tuple[str, ...] = field(default=(), repr=False)
    tls: Tls | None = None
    insecure: bool = False

    @property
    def demanded(self) -> bool:
        """Whether a caller has to show anything."""
        return bool(self.tokens) or self.tls is not None

    @property
    def authorization(self) -> str:
        """Value of the header by which the token is shown; empty: there is none."""
        return f"Bearer {self.tokens[0]}" if self.tokens else ""

    def admits(self, authorization: str) -> bool:
        """Whether a caller who sends this header knows a token, or none is demanded.

        It takes as long for a nearly right token as for a wrong one of that length.
        """
        if not self.tokens:
            return True
        scheme, _, given = authorization.partition(" ")
        shown = given.strip().encode(errors="surrogateescape")
        same = [hmac.compare_digest(shown, token.encode()) for token in self.tokens]
        return scheme.lower() == "bearer" and any(same)


def read_credentials(environ: Mapping[str, str]) -> Credentials:
    """The credentials that an environment names.

    Args:
        environ: ``TOWPATH_TOKEN_FILE``, ``TOWPATH_TLS_CERT``, ``_KEY``, ``_CA`` and ``_NAME``, ``TOWPATH_INSECURE``; an
            empty one counts as none.

    Raises:
        SecurityError: a file can't be read, or is not what it should be; certificates are named in part; a word is
            neither yes nor no. The text never holds what is in a file.
    """
    return Credentials(_tokens(environ.get(TOKEN_FILE, "")), _tls(environ), _insecure(environ.get(INSECURE, "")))


def _tokens(file: str) -> tuple[str, ...]:
    """One a line: the first is shown, all are taken, so that they can be changed one service at a time."""
    if not file:
        return ()
    tokens = tuple(line.strip() for line in _text(TOKEN_FILE, file).splitlines() if line.strip())
    if not tokens:
        raise SecurityError(f"{TOKEN_FILE}: {file} holds no token; make one with: openssl rand -hex 32 > {file}")
    for number, token in enumerate(tokens, start=1):
        if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable() and " " not in token):
            raise SecurityError(
                f"{TOKEN_FILE}: token {number} in {file} has to be at least {SHORTEST_TOKEN} printable characters of "
                f"ASCII without blanks; make one with: openssl rand -hex 32 > {file}"
            )
    return tokens


def _tls(environ: Mapping[str, str]) -> Tls | None:
    given = {name: environ.get(name, "") for name in (TLS_CERT, TLS_KEY, TLS_CA)}
    missing = [name for name, file in given.items() if not file]
    if len(missing) == len(given):
        return None
    if missing:
        raise SecurityError(f"TLS needs {TLS_CERT}, {TLS_KEY} and {TLS_CA}: missing {' and '.join(missing)}")
    for name, file in given.items():
        _text(name, file)
    cert, key, ca = (Path(file) for file in given.values())
    tls = Tls(cert, key, ca, environ.get(TLS_NAME, ""))
    client_context(tls)  # what is wrong with the files is said at start
    return tls


def _text(name: str, file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise SecurityError(f"{name}: {file} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SecurityError(f"{name}: {file} is not text (a PEM file, or a token)") from error


def _insecure(text: str) -> bool:
    word = text.strip().lower()
    if word not in _YES | _NO:
        raise SecurityError(f"{INSECURE}={text!r}: expected true or false")
    return word in _YES

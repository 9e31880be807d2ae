"""Tokens and certificates as the environment names them."""

from __future__ import annotations

import hmac
from pathlib import Path

import pytest

from statemgr.errors import SecurityError
from statemgr.security import Credentials, read_credentials
from tests.harness.certificates import Authority, encrypt, environment

OLD, NEW = "0123456789abcdef-old", "0123456789abcdef-new"


def read_token(path: Path, content: bytes) -> Credentials:
    path.write_bytes(content)
    return read_credentials({"TOWPATH_TOKEN_FILE": str(path)})


def test_an_environment_that_names_nothing_demands_nothing() -> None:
    found = read_credentials({"TOWPATH_TOKEN_FILE": "", "TOWPATH_TLS_CERT": "", "TOWPATH_INSECURE": ""})
    assert (found, found.demanded, found.authorization) == (Credentials(), False, "")
    assert found.admits("")


def test_the_first_token_is_shown_and_every_one_is_taken(tmp_path: Path) -> None:
    found = read_token(tmp_path / "token", f"\n{NEW}\r\n\n  {OLD}  \n".encode())
    assert found.demanded
    assert found.authorization == f"Bearer {NEW}"
    assert all(found.admits(f"Bearer {token}") for token in (OLD, NEW))


@pytest.mark.parametrize(
    "shown",
    ["", "Bearer", "Bearer ", f"Basic {OLD}", OLD, f"Bearer {OLD[:-1]}", f"Bearer {OLD}x", f"Bearer {OLD} {OLD}",
     "Bearer \udcff", "Bearer é" * 10],
)  # fmt: skip
def test_nothing_but_a_whole_token_is_taken(shown: str) -> None:
    assert not Credentials((OLD,)).admits(shown)


@pytest.mark.parametrize("shown", [f"bearer {OLD}", f"BEARER   {OLD} "])
def test_the_scheme_is_a_word_without_case(shown: str) -> None:
    assert Credentials((OLD,)).admits(shown)


def test_every_token_is_compared_in_constant_time_whichever_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []
    real = hmac.compare_digest

    def noted(shown: bytes, token: bytes) -> bool:
        compared.append(token)
        return real(shown, token)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    assert Credentials((OLD, NEW)).admits(f"Bearer {OLD}")
    assert compared == [OLD.encode(), NEW.encode()]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "holds no token; make one with: openssl rand -hex 32"),
        (b"\n \n", "holds no token"),
        (b"hunter2-hunter2", "token 1 in .* at least 16 printable characters"),
        (f"{OLD}\nhunter2 hunter2 hunter2".encode(), "token 2 in"),
        ("hunter2-hunter2-ü".encode(), "token 1 in"),
        (b"hunter2\xff", "is not text"),
    ],
)
def test_a_file_without_a_usable_token_is_refused_and_its_content_is_not_told(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    with pytest.raises(SecurityError, match=reason) as refused:
        read_token(tmp_path / "token", content)
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_status == 2


def test_a_file_that_is_not_there_is_named_with_its_variable(tmp_path: Path) -> None:
    with pytest.raises(SecurityError, match=r"TOWPATH_TOKEN_FILE: .*/none can't be read: No such file"):
        read_credentials({"TOWPATH_TOKEN_FILE": str(tmp_path / "none")})


def test_what_is_printed_of_credentials_holds_no_token() -> None:
    assert OLD not in repr(Credentials((OLD,)))


@pytest.mark.parametrize(
    ("word", "insecure"), [("true", True), ("1", True), ("Yes", True), ("false", False), ("0", False)]
)
def test_doing_without_is_a_word(word: str, insecure: bool) -> None:
    assert read_credentials({"TOWPATH_INSECURE": word}).insecure is insecure


def test_a_word_that_is_neither_yes_nor_no_is_refused() -> None:
    with pytest.raises(SecurityError, match="TOWPATH_INSECURE='maybe': expected true or false"):
        read_credentials({"TOWPATH_INSECURE": "maybe"})


# --- certificates ---


def test_certificates_are_demanded(tmp_path: Path) -> None:
    tls = Authority(tmp_path).issue("a", "localhost")
    found = read_credentials(environment(tls))
    assert (found.tls, found.demanded, found.authorization) == (tls, True, "")


@pytest.mark.parametrize("missing", ["TOWPATH_TLS_CERT", "TOWPATH_TLS_KEY", "TOWPATH_TLS_CA"])
def test_certificates_that_are_named_in_part_are_refused(tmp_path: Path, missing: str) -> None:
    named = environment(Authority(tmp_path).issue("a", "localhost"))
    with pytest.raises(SecurityError, match=f"missing {missing}"):
        read_credentials({**named, missing: ""})


def test_files_that_do_not_belong_together_are_refused_at_start(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = environment(authority.issue("a", "localhost")), environment(authority.issue("b", "localhost"))
    garbage = tmp_path / "garbage"
    garbage.write_text("hunter2")
    cases = [
        {**one, "TOWPATH_TLS_KEY": other["TOWPATH_TLS_KEY"]},
        {**one, "TOWPATH_TLS_KEY": str(garbage)},
        {**one, "TOWPATH_TLS_CERT": str(garbage)},
        {**one, "TOWPATH_TLS_CA": str(garbage)},
    ]
    for named in cases:
        with pytest.raises(SecurityError, match="TLS can't be set up with") as refused:
            read_credentials(named)
        assert "hunter2" not in str(refused.value)


def test_a_key_with_a_password_is_refused_instead_of_asked_for(tmp_path: Path) -> None:
    tls = Authority(tmp_path).issue("a", "localhost")
    encrypt(tls.key, "hunter2")
    with pytest.raises(SecurityError, match="the private key has a password"):
        read_credentials(environment(tls))

"""An authority for tests, and the certificates that it signs, as PEM files."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from statemgr.security import Tls


class Authority:
    """Signs certificates.

    Args:
        directory: where its files go.

    Attributes:
        certificate: its own, as a PEM file.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._authority = trustme.CA()
        self.certificate = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(self.certificate)

    def issue(self, name: str, *hosts: str, common_name: str | None = None) -> Tls:
        """A certificate for hosts, its key as PKCS#8.

        Args:
            name: of its files.
            hosts: names and addresses that it is good for.
            common_name: the subject's.
        """
        made = self._authority.issue_cert(*hosts, common_name=common_name)
        cert, key = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        cert.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        loaded = load_pem_private_key(made.private_key_pem.bytes(), None)
        key.write_bytes(loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return Tls(cert, key, self.certificate)


def encrypt(key: Path, password: str) -> None:
    """Give a key's file a password."""
    loaded = load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())))


def environment(tls: Tls) -> dict[str, str]:
    """The variables that name a process's certificates."""
    return {
        "TOWPATH_TLS_CERT": str(tls.cert),
        "TOWPATH_TLS_KEY": str(tls.key),
        "TOWPATH_TLS_CA": str(tls.ca),
        "TOWPATH_TLS_NAME": tls.name,
    }

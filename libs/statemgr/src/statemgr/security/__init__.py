"""Who may talk to a service: credentials from files, and where a service may listen without any."""

from statemgr.security.credentials import Credentials, read_credentials
from statemgr.security.listening import check_listening, credentials_to_listen, is_loopback
from statemgr.security.tls import Tls

__all__ = ["Credentials", "Tls", "check_listening", "credentials_to_listen", "is_loopback", "read_credentials"]

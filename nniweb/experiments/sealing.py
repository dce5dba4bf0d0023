"""Secrets at rest: sealed with Fernet; the first key seals, all of them open."""

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class CannotOpen(Exception):
    """The sealed value was sealed with a key this installation does not have."""


def _fernet() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.SEAL_KEYS])


def seal(secret: str) -> bytes:
    return _fernet().encrypt(secret.encode("utf-8", "surrogatepass"))


def unseal(sealed: bytes | memoryview) -> str:
    """Raises CannotOpen."""
    try:
        return _fernet().decrypt(bytes(sealed)).decode("utf-8", "surrogatepass")
    except InvalidToken:
        raise CannotOpen("A stored secret cannot be opened with this installation's keys (NNIWEB_SEAL_KEYS). "
                         "Bring back the old key as a second one, or set the secret again.") from None

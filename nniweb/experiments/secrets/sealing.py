"""Secrets at rest: sealed with Fernet; the first key seals, all of them open.

The keys come from NNIWEB_SEAL_KEYS, or from a file of the data folder that is read each time, so that a server which
runs while they are changed (``manage.py rotate-keys``) seals with the new one from then on. Whatever is sealed or
opened is struck out of what the same piece of work says and logs.
"""

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import models

from nniweb.storage import data_folder
from trainingservice.secrets_in_use import learn


class SealedField(models.BinaryField):  # type: ignore[type-arg]  # not subscriptable when running
    """A column of sealed secrets: what ``seal`` returned, or None. ``rotate-keys`` seals all such columns anew."""

    def deconstruct(self) -> tuple[str, str, list[object], dict[str, object]]:
        name, _, arguments, options = super().deconstruct()  # for the database it is what it was
        return name, "django.db.models.BinaryField", list(arguments), options


class CannotOpen(Exception):
    """The sealed value was sealed with a key this installation does not have."""


def current_keys() -> list[str]:
    """The keys that count now, the sealing one first."""
    given = list(settings.SEAL_KEYS)
    return given or data_folder.seal_keys(settings.DATA_FOLDER).split(",")


def seal(secret: str) -> bytes:
    learn(secret)
    return _fernet().encrypt(secret.encode("utf-8", "surrogatepass"))


def unseal(sealed: bytes | memoryview) -> str:
    """Raises CannotOpen."""
    try:
        secret = _fernet().decrypt(bytes(sealed)).decode("utf-8", "surrogatepass")
    except InvalidToken:
        raise CannotOpen("A stored secret cannot be decrypted with this installation's keys (NNIWEB_SEAL_KEYS). "
                         "Restore the old key as a second one, or set the secret again.") from None
    learn(secret)
    return secret


def sealed_anew(sealed: bytes | memoryview, among: list[str]) -> bytes | None:
    """The same secret, sealed with the first of the keys ``among``; None where it is already. Raises CannotOpen."""
    value = bytes(sealed)
    try:
        Fernet(among[0]).decrypt(value)
    except InvalidToken:
        try:
            return MultiFernet([Fernet(key) for key in among]).rotate(value)
        except InvalidToken:
            raise CannotOpen("The secret was not encrypted with any of these keys.") from None
    return None


def _fernet() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in current_keys()])

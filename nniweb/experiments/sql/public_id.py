"""Ids that people and platforms see."""

import secrets

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_LETTERS_AND_DIGITS = _LETTERS + "0123456789"


def new_public_id() -> str:
    """12 random characters [a-z0-9], the first a letter.

    The strictest platforms decide: FrameworkController allows no hyphen, Azure ML lower-cases,
    Kubernetes wants names of services to begin with a letter.
    """
    return secrets.choice(_LETTERS) + "".join(secrets.choice(_LETTERS_AND_DIGITS) for _ in range(11))

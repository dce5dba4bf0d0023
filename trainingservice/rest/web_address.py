"""Addresses of services, and tokens for them, as people write them."""

from urllib.parse import urlsplit

from pydantic import SecretStr

from trainingservice.refused_values import placeholder_sentence


def web_address(written: str, scheme: str, *, what: str, example: str) -> str:
    """The address with ``scheme`` (https, http) where it has none, without a slash at its end.

    Raises ValueError, naming ``what`` was expected: it must have a host, and neither user nor query.
    """
    text = written.strip()
    address = text if "://" in text else f"{scheme}://{text}"
    try:
        parts = urlsplit(address)
    except ValueError:  # a broken IPv6 address, say
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise ValueError(f"must be {what} such as {example}")
    return address.rstrip("/")


def token_of_one_word(value: SecretStr | None) -> SecretStr | None:
    """A token as it is sent in a header. Raises ValueError, which shows nothing of it."""
    if value is not None and not all("!" <= character <= "~" for character in value.get_secret_value()):
        if placeholder_sentence(value.get_secret_value()):
            raise ValueError("is a placeholder: write your own value instead of it")
        raise ValueError("must be one word of plain characters")
    return value

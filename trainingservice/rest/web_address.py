"""Addresses of services as people write them."""

from urllib.parse import urlsplit


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

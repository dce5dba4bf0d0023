"""The address at which trial machines call this server, as a file gives it (nniManagerIp)."""

import re
from urllib.parse import urlsplit

from trainingservice.words.shown_value import shown


def callback_url(address: str, default_port: int) -> str:
    """A URL of a name or an address, with or without a port; a URL stays what it is."""
    if "://" in address:
        return address.rstrip("/")
    host = f"[{address}]" if address.count(":") > 1 and not address.startswith("[") else address
    return f"http://{host}" if re.search(r":\d+\Z", host) else f"http://{host}:{default_port}"


def check_callback_address(text: str) -> str:
    """The same text. Raises ValueError where it cannot be the server's address. "" means that none is given."""
    if text and not _is_address(text):
        raise ValueError(f"{shown(text)} is not an address. Write the name or the address at which trial machines "
                         "reach this server, with the port if it differs from the server's own: nni.example.org, "
                         "10.0.0.5:8080, https://nni.example.org")
    return text


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(callback_url(text, default_port=80))
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 \
            and re.search(r"[\s@?#]", text) is None and ("://" in text or "/" not in text)
    except ValueError:
        return False

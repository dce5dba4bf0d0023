"""Under which addresses keepers and people reach this installation."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

from nniweb.storage.data_folder import ServerLock, read_address_file


def address_file() -> Path:
    """``server.json``: re-read by keepers on this machine, so that a new port reaches them."""
    return ServerLock(settings.DATA_FOLDER).address_file


def keeper_urls(callback_url: str = "") -> tuple[str, ...]:
    """Addresses for keepers on other machines, best first.

    ``callback_url`` is the experiment's own (nniManagerIp): an address, or a name with or without a port. Without one
    it is that of the server as it runs now, not of the command that launched the experiment. () where only loopback is
    known.
    """
    if callback_url:
        return (_with_scheme_and_port(callback_url),)
    return (settings.PUBLIC_URL,) if settings.PUBLIC_URL else ()


def no_callback_url(text: str) -> str:
    """What to say of a text that ``is_callback_url`` refuses."""
    return (f"{text!r} is not an address. Write the name or the address at which trial machines reach this server, "
            "with the port if it differs from the server's own: nni.example.org, 10.0.0.5:8080, https://nni.example.org.")


def is_callback_url(text: str) -> bool:
    """Whether keepers could be given this as the server's address."""
    try:
        parts = urlsplit(_with_scheme_and_port(text))
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 \
            and re.search(r"[\s@?#]", text) is None and ("://" in text or "/" not in text)
    except ValueError:
        return False


def _with_scheme_and_port(address: str) -> str:
    if "://" in address:
        return address.rstrip("/")
    host = f"[{address}]" if address.count(":") > 1 and not address.startswith("[") else address
    return f"http://{host}" if re.search(r":\d+\Z", host) else f"http://{host}:{_own_port()}"


def _own_port() -> int:
    """Of the server of this data folder where one runs or ran; else as the settings say."""
    written = tuple(read_address_file(address_file()).get("urls", ()))
    return (urlsplit(written[0]).port if written else None) or settings.PORT


def own_urls() -> tuple[str, ...]:
    """Addresses that work on this machine: what ``serve`` wrote down, where webs of another kind run the public one."""
    return tuple(read_address_file(address_file()).get("urls", ())) or keeper_urls() \
        or (f"http://127.0.0.1:{settings.PORT}",)


def server_urls() -> tuple[str, ...]:
    """Addresses at which the worker reaches the web server: on its own machine, or where it is public."""
    return tuple(dict.fromkeys((*own_urls(), *keeper_urls())))


def experiment_page(public_id: str) -> str:
    """The address of an experiment's page, as a person can open it."""
    return f"{page_root()}/experiments/{public_id}/"


def sign_in_page(secret: str) -> str:
    """The address that signs in with this secret of a sign-in link."""
    return f"{page_root()}/sign-in/{secret}/"


def notifications_page(rule_id: str) -> str:
    """The page of a rule by which people are told what happens."""
    return f"{page_root()}/notifications/{rule_id}/"


def page_root() -> str:
    """What stands before the path of every page."""
    return settings.PUBLIC_URL or own_urls()[0]

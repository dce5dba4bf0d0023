"""Under which addresses keepers and people reach this installation."""

from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

from nniweb.experiments.config.callback_address import callback_url as with_port
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
        return (with_port(callback_url, _own_port()),)
    return (settings.PUBLIC_URL,) if settings.PUBLIC_URL else ()


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

"""The address of a webhook: what it must look like, and what of it may be shown."""

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from nniweb.experiments.clusters.public_addresses import is_public

LONGEST_URL = 2000
#: The setting that also allows http and addresses that are not public.
ALLOWED_BY = "NNIWEB_WEBHOOK_PRIVATE_ADDRESSES"


class NoWebhookAddress(Exception):
    """The text is a sentence that says why; it holds nothing of the address but its host."""


@dataclass(frozen=True)
class WebhookAddress:
    is_tls: bool
    host: str
    port: int
    #: Path and query as they are sent.
    target: str

    @property
    def origin(self) -> str:
        """For people: without the path, which is often a key."""
        usual = self.port == (443 if self.is_tls else 80)
        return f"{'https' if self.is_tls else 'http'}://{self._bracketed}{'' if usual else f':{self.port}'}"

    @property
    def host_header(self) -> str:
        return self.origin.partition("//")[2]

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def read_webhook_url(url: str) -> WebhookAddress:
    """Raises NoWebhookAddress. Names are looked up when something is sent, not here."""
    if len(url) > LONGEST_URL:
        raise NoWebhookAddress(f"The address has more than {LONGEST_URL} characters.")
    if not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        raise NoWebhookAddress("The address has characters that must be %-escaped (a host's: xn--...).")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise NoWebhookAddress("This is not an address. Write https://host/path.") from None
    if parts.scheme not in ("https", "http") or not host or port == 0:
        raise NoWebhookAddress("This is not the address of a webhook. Write https://host/path.")
    if parts.username is not None or parts.password is not None:
        raise NoWebhookAddress("The address must not contain a user name or a password. Receivers can check the "
                               "signature of messages instead.")
    if parts.fragment:
        raise NoWebhookAddress("The address must not have a part after #, because that part is never sent.")
    if parts.scheme == "http" and not settings.WEBHOOK_PRIVATE_ADDRESSES:
        raise NoWebhookAddress("The address must begin with https://, because others could read the messages "
                               f"otherwise. An administrator can allow http:// with {ALLOWED_BY}=1.")
    if not settings.WEBHOOK_PRIVATE_ADDRESSES and _is_private_number(host):
        raise NoWebhookAddress(f"{host} is not a public internet address. An administrator can allow such addresses "
                               f"with {ALLOWED_BY}=1.")
    is_tls = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookAddress(is_tls, host, port or (443 if is_tls else 80), target)


def _is_private_number(host: str) -> bool:
    try:
        return not is_public(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return False  # a name

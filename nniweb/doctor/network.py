"""How the server is reached, and what it reaches: its port, the public address, TLS and proxies, Redis, mail."""

import smtplib
from collections.abc import Iterator
from email.utils import parseaddr
from typing import Any
from urllib.parse import urlsplit

import requests
from django.conf import settings
from django.core.mail import get_connection

from nniweb.database.outage_logs import first_line
from nniweb.doctor.findings import Finding, warning, well, wrong
from nniweb.doctor.free_port import why_no_port
from nniweb.middleware.require_tls import WHAT_TO_DO, is_loopback, why_not_listen
from nniweb.storage.data_folder import ServerLock, read_address_file
from nniweb.storage.own_files import START

#: Seconds that a server is given for its answer.
PATIENCE = 5.0


def server() -> Iterator[Finding]:
    """What a server that runs says of itself; where none runs, whether one could listen."""
    lock = ServerLock(settings.DATA_FOLDER)
    if not lock.is_held():
        if why_not := why_no_port(settings.HOST, settings.PORT):
            yield wrong("server", f"No server runs on this data folder, and none could be started. {why_not}",
                        f"Find the program that listens there (ss -ltnp 'sport = :{settings.PORT}') and end it, or set "
                        "NNIWEB_PORT.")
        else:
            yield well("server", f"No server runs on this data folder. Port {settings.PORT} on {settings.HOST} is "
                                 f"free. To start the server: {START}.")
        return
    content = read_address_file(lock.address_file)
    url = (content.get("urls") or [f"http://127.0.0.1:{settings.PORT}"])[0]
    try:
        said: Any = requests.get(f"{url}/readyz", timeout=PATIENCE, proxies=_NO_PROXIES).json()
    except (requests.RequestException, ValueError) as error:
        yield wrong("server", f"Process {content.get('pid', '')} uses the data folder, but no server answers at {url} "
                              f"({type(error).__name__}).",
                    "If it was just started, wait a minute. Otherwise read its log, end that process and start the "
                    "server again. Running trials continue meanwhile.")
        return
    faults = [wrong("server", check["message"], "The server's log has details.")
              for check in said.get("checks", []) if not check["ok"]]
    faults += [warning("server", sentence, "The other findings and the server's log have details.")
               for sentence in said.get("warnings", [])]
    yield from faults or [well("server", f"The server runs at {url} and is ready.")]


def exposure() -> Iterator[Finding]:
    """Whether passwords could cross a network in the clear, and whether visitors are known behind a proxy."""
    if why_not := why_not_listen(settings.HOST, allowed=settings.MAY_BE_REACHED):
        yield wrong("TLS", f"With NNIWEB_HOST={settings.HOST} the server does not start. "
                           + why_not.removesuffix(WHAT_TO_DO).strip(), WHAT_TO_DO)
    elif settings.PLAIN_HTTP and not settings.BEHIND_TLS and not is_loopback(settings.HOST):
        yield warning("TLS", f"The server listens on {settings.HOST}, and passwords cross the network unencrypted, "
                             "which NNIWEB_PLAIN_HTTP=1 allows.",
                      "Unless you trust everybody in that network, put a proxy with TLS in front (docs/deploy).")
    elif settings.BEHIND_TLS and not settings.TRUSTED_PROXIES:
        yield warning("TLS", "NNIWEB_PUBLIC_URL says that there is a proxy with TLS, but none is trusted. All visitors "
                             "seem to have the proxy's address, so failed sign-ins of one visitor delay the sign-ins "
                             "of all.",
                      "Name the proxy in NNIWEB_TRUSTED_PROXIES; for a proxy on this machine, 127.0.0.1.")
    else:
        yield well("TLS", "Passwords and tokens do not cross a network unencrypted." if is_loopback(settings.HOST)
                   or settings.BEHIND_TLS else "The trusted proxies provide TLS.")


def public_address() -> Iterator[Finding]:
    """Whether NNIWEB_PUBLIC_URL leads to a server, from here at least."""
    url = settings.PUBLIC_URL
    if not url:
        return
    remedy = ("Check that the server runs, that the name resolves to the proxy, that the proxy's certificate is valid, "
              "and that the proxy forwards all requests to the server. If the name is not known in this network, this "
              "may not be an error.")
    try:
        answer = requests.get(f"{url}/healthz", timeout=PATIENCE, allow_redirects=False,
                              verify=str(settings.CA_FILE) if settings.CA_FILE else True)
        if answer.json() == {"alive": True}:
            yield well("public address", f"A server answers at {url}.")
            return
    except requests.exceptions.SSLError:
        yield warning("public address", f"This machine does not trust the certificate at {url}.",
                      "Renew the certificate of the proxy. If a private authority signed it, set NNIWEB_CA_FILE to the "
                      "file of that authority. Keepers on machines that do not trust the certificate cannot report.")
    except (requests.ConnectionError, requests.Timeout):
        yield warning("public address", f"No server answers at {url} (NNIWEB_PUBLIC_URL).", remedy)
    except (requests.RequestException, ValueError):
        yield warning("public address", f"The server at {url} (NNIWEB_PUBLIC_URL) is not an NNI Web server.", remedy)
    else:
        yield warning("public address", f"The server at {url} (NNIWEB_PUBLIC_URL) is not an NNI Web server.", remedy)


def redis() -> Iterator[Finding]:
    """Whether the Redis server of NNIWEB_REDIS_URL answers, where one is set."""
    if not settings.REDIS_URL:
        return
    import redis as client  # an extra package, which the settings have looked for

    try:
        with client.Redis.from_url(settings.REDIS_URL, socket_timeout=PATIENCE,
                                   socket_connect_timeout=PATIENCE) as ours:
            ours.ping()
    except (client.RedisError, ValueError) as error:
        yield wrong("Redis", f"{_place(settings.REDIS_URL)} does not answer: {first_line(error).rstrip('.')}.",
                    "Start Redis there, or correct NNIWEB_REDIS_URL. Until then, each process sees changes of other "
                    "processes one or two seconds later. Nothing is lost.")
    else:
        yield well("Redis", f"{_place(settings.REDIS_URL)} answers.")


def mail() -> Iterator[Finding]:
    """Whether the mail server lets us in; no mail is sent."""
    if not settings.MAIL_URL:
        return
    place = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    connection: Any = get_connection(timeout=PATIENCE)
    try:
        connection.open()
        connection.close()
    except smtplib.SMTPAuthenticationError:
        yield wrong("mail", f"The mail server {place} does not accept this user and password.",
                    "Correct them in NNIWEB_MAIL_URL. Special characters must be %-escaped there.")
        return
    except (OSError, smtplib.SMTPException) as error:
        yield wrong("mail", f"The mail server {place} cannot be used: {first_line(error)}.",
                    "Correct host, port and encryption in NNIWEB_MAIL_URL (smtp+starttls:// 587, smtps:// 465, smtp:// "
                    "25), and check that the firewall allows the connection. Mails wait and are sent again.")
        return
    if parseaddr(settings.DEFAULT_FROM_EMAIL)[1].endswith("@localhost"):
        yield warning("mail", f"The mail server {place} accepts the log-in, but the sender address is "
                              f"{settings.DEFAULT_FROM_EMAIL}.",
                      "Set NNIWEB_MAIL_FROM to an address that this installation may send from. Many mail servers "
                      "refuse other senders.")
    else:
        yield well("mail", f"The mail server {place} accepts the log-in.")


#: For servers on this machine, whatever the environment says of proxies.
_NO_PROXIES = {"http": "", "https": ""}


def _place(url: str) -> str:
    """Where it is, without user and password."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path

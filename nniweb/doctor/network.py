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
            yield wrong("server", f"None runs on this data folder, and none could be started. {why_not}",
                        f"See who listens there (ss -ltnp 'sport = :{settings.PORT}') and end it, or set NNIWEB_PORT.")
        else:
            yield well("server", f"None runs on this data folder; port {settings.PORT} on {settings.HOST} is free "
                                 f"for it. To start one: {START}.")
        return
    content = read_address_file(lock.address_file)
    url = (content.get("urls") or [f"http://127.0.0.1:{settings.PORT}"])[0]
    try:
        said: Any = requests.get(f"{url}/readyz", timeout=PATIENCE, proxies=_NO_PROXIES).json()
    except (requests.RequestException, ValueError) as error:
        yield wrong("server", f"Process {content.get('pid', '')} holds the data folder, but at {url} nobody answers as "
                              f"a server does ({type(error).__name__}).",
                    "Where it was just started, wait a minute. Else read its log, end that process and start it again; "
                    "running trials go on meanwhile.")
        return
    faults = [wrong("server", check["message"], "The server's log says more.")
              for check in said.get("checks", []) if not check["ok"]]
    faults += [warning("server", sentence, "The other lines here, and the server's log, say more.")
               for sentence in said.get("warnings", [])]
    yield from faults or [well("server", f"It runs at {url} and is ready.")]


def exposure() -> Iterator[Finding]:
    """Whether passwords could cross a network in the clear, and whether visitors are known behind a proxy."""
    if why_not := why_not_listen(settings.HOST, allowed=settings.MAY_BE_REACHED):
        yield wrong("TLS", f"With NNIWEB_HOST={settings.HOST} the server does not start. "
                           + why_not.removesuffix(WHAT_TO_DO).strip(), WHAT_TO_DO)
    elif settings.PLAIN_HTTP and not settings.BEHIND_TLS and not is_loopback(settings.HOST):
        yield warning("TLS", f"The server listens on {settings.HOST} and passwords cross the network in the clear, as "
                             "NNIWEB_PLAIN_HTTP=1 allows.",
                      "Unless you trust everybody in that network, put a proxy with TLS in front (docs/deploy).")
    elif settings.BEHIND_TLS and not settings.TRUSTED_PROXIES:
        yield warning("TLS", "NNIWEB_PUBLIC_URL says that a proxy with TLS stands in front, and none is trusted: all "
                             "visitors seem to come from the proxy's address, so one who guesses passwords makes "
                             "everybody wait.",
                      "Name the proxy in NNIWEB_TRUSTED_PROXIES, such as 127.0.0.1 where it runs on this machine.")
    else:
        yield well("TLS", "Passwords and tokens do not cross a network in the clear." if is_loopback(settings.HOST)
                   or settings.BEHIND_TLS else "It is left to the trusted proxies.")


def public_address() -> Iterator[Finding]:
    """Whether NNIWEB_PUBLIC_URL leads to a server, from here at least."""
    url = settings.PUBLIC_URL
    if not url:
        return
    remedy = ("See that the server runs, that the name leads to the proxy, that its certificate is valid, and that it "
              "hands everything on to the server. From a network in which the name is not known, this may be no fault.")
    try:
        answer = requests.get(f"{url}/healthz", timeout=PATIENCE, allow_redirects=False,
                              verify=str(settings.CA_FILE) if settings.CA_FILE else True)
        if answer.json() == {"alive": True}:
            yield well("public address", f"A server answers at {url}.")
            return
    except requests.exceptions.SSLError:
        yield warning("public address", f"The certificate at {url} is not one that this machine trusts.",
                      "Renew the certificate of the proxy, or, where it is of an authority of your own, name that "
                      "authority's file with NNIWEB_CA_FILE. Keepers on other machines that do not trust it cannot "
                      "report.")
    except (requests.ConnectionError, requests.Timeout):
        yield warning("public address", f"Nobody answers at {url} (NNIWEB_PUBLIC_URL).", remedy)
    except (requests.RequestException, ValueError):
        yield warning("public address", f"What answers at {url} (NNIWEB_PUBLIC_URL) is no server of NNI Web.", remedy)
    else:
        yield warning("public address", f"What answers at {url} (NNIWEB_PUBLIC_URL) is no server of NNI Web.", remedy)


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
                    "Start Redis there, or correct NNIWEB_REDIS_URL. Until then each process finds out what changed a "
                    "second or two later by itself; nothing is lost.")
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
        yield wrong("mail", f"The mail server {place} does not take this user and password.",
                    "Correct them in NNIWEB_MAIL_URL; special characters are %-escaped there.")
        return
    except (OSError, smtplib.SMTPException) as error:
        yield wrong("mail", f"The mail server {place} cannot be used: {first_line(error)}.",
                    "Correct host, port and kind of encryption in NNIWEB_MAIL_URL (smtp+starttls:// 587, smtps:// 465, "
                    "smtp:// 25), and see that a firewall lets this machine out there. Mails wait and are tried again.")
        return
    if parseaddr(settings.DEFAULT_FROM_EMAIL)[1].endswith("@localhost"):
        yield warning("mail", f"The mail server {place} lets us in, but the sender is {settings.DEFAULT_FROM_EMAIL}.",
                      "Set NNIWEB_MAIL_FROM to an address that this server may send from; many refuse others.")
    else:
        yield well("mail", f"The mail server {place} lets us in.")


#: For servers on this machine, whatever the environment says of proxies.
_NO_PROXIES = {"http": "", "https": ""}


def _place(url: str) -> str:
    """Where it is, without user and password."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path

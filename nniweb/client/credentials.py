"""Which server, and with which token. A token is never an argument of a command: every user of a machine sees those."""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path
from urllib.parse import urlsplit

from nniweb.client.errors import TokenTrouble
from nniweb.middleware.require_tls import is_loopback

#: Longer than any token: a file that is larger is another one.
_LONGEST = 4096


def server_address(given: str | None) -> str:
    """The address without a slash at the end (and without REST's path): what is given, else NNIWEB_SERVER. Raises
    TokenTrouble.

    Over http:// only this machine is spoken with, unless NNIWEB_PLAIN_HTTP=1 says that the network may hear the token.
    """
    address = (given or os.environ.get("NNIWEB_SERVER", "")).strip().rstrip("/").removesuffix("/api/v1")
    if not address:
        raise TokenTrouble("No server was given. Give its address, such as https://nni.example.org, or set "
                           "NNIWEB_SERVER.")
    try:
        parts = urlsplit(address)
        host = parts.hostname if parts.port is None or parts.port else None
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise TokenTrouble(f"{address} is not the address of a server. Write an address such as "
                           "https://nni.example.org.")
    if parts.username is not None or parts.password is not None:
        raise TokenTrouble("The server's address must not contain a user name or a password. The token is enough.")
    if parts.scheme == "http" and not is_loopback(host) and os.environ.get("NNIWEB_PLAIN_HTTP") != "1":
        raise TokenTrouble(f"The token would cross the network to {host} unencrypted. Use https://, or set "
                           "NNIWEB_PLAIN_HTTP=1 if you trust the network.")
    return address


def authority_file(given: str | os.PathLike[str] | None = None) -> str | None:
    """The PEM file with the authority behind the server's certificate: what is given, else NNIWEB_CA_FILE; None: those
    that everybody knows. Raises TokenTrouble where it is no such file.
    """
    named = given or os.environ.get("NNIWEB_CA_FILE")
    if not named:
        return None
    path = Path(named).expanduser()
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        reason = "it contains no certificate in PEM format" if isinstance(error, ssl.SSLError) else error.strerror
        raise TokenTrouble(f"{path} cannot be used as the server's certificate authority: {reason}.") from None
    return str(path)


def default_token_file() -> Path:
    """Where a token is looked for when nothing else is said."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    root = Path(named) if os.path.isabs(named) else Path(os.path.expanduser("~")) / ".config"
    return root / "nniweb" / "token"


def find_token(file: str | os.PathLike[str] | None = None) -> str:
    """The token: of the file that is named, of NNIWEB_TOKEN, of the file in NNIWEB_TOKEN_FILE, of the default file.

    Raises TokenTrouble, with what to do.
    """
    if file is None and (held := os.environ.get("NNIWEB_TOKEN", "").strip()):
        return checked_token(held, "NNIWEB_TOKEN")
    named = file or os.environ.get("NNIWEB_TOKEN_FILE")
    path = Path(named).expanduser() if named else default_token_file()
    try:
        return checked_token(_read_private(path), str(path))
    except FileNotFoundError:
        raise TokenTrouble(f"There is no token in {path}. Make a token on your account page. Put it into that file "
                           "(mode 600), into another file that --token-file or NNIWEB_TOKEN_FILE names, or into "
                           "NNIWEB_TOKEN.") from None
    except OSError as error:
        raise TokenTrouble(f"The token in {path} cannot be read: {error.strerror}.") from None


def _read_private(path: Path) -> str:
    """The text of a file that nobody else may read. Raises OSError and TokenTrouble."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, encoding="utf-8", errors="replace") as file:
        status = os.fstat(descriptor)  # of what is read, not of what has that name a moment later
        if not stat.S_ISREG(status.st_mode):
            raise TokenTrouble(f"{path} is not a regular file. Put the token into a file of its own.")
        if status.st_uid not in (os.geteuid(), 0):
            raise TokenTrouble(f"{path} belongs to another user, who could have put any token there. Use a file that "
                               "belongs to you.")
        if status.st_mode & 0o077:
            raise TokenTrouble(f"Others may read or change {path} (mode {stat.S_IMODE(status.st_mode):o}), so the "
                               f"token in it may be known to them. Restrict the permissions: chmod 600 {path}")
        return file.read(_LONGEST + 1)


def checked_token(text: str, where: str) -> str:
    """The token in a text. Raises TokenTrouble, which does not repeat it. ``where`` the text comes from, for that."""
    token = text.strip()
    if not token or len(token) > _LONGEST or not token.isascii() or not token.isprintable() or " " in token:
        raise TokenTrouble(f"{where} contains no valid token. It must be one line, such as nniweb_... from your "
                           "account page.")
    return token

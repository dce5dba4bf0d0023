"""How the keeper reaches its server: addresses, token, private certificate authority."""

import json
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from trialkeeper import contract
from trialkeeper.attempt_folder import read_object, read_text, write_file

#: Stands before the path of the agent's socket where an address is expected.
RELAY = "relay:"


class Access(NamedTuple):
    """Without addresses and ``url_file`` there is no server to call: the journal is collected as a file."""

    urls: Tuple[str, ...] = ()
    token: str = ""
    url_file: Optional[str] = None
    ca_file: Optional[str] = None
    #: Names the socket of the machine's agent, which passes requests on where no address answers.
    relay_file: Optional[str] = None

    def __repr__(self) -> str:
        return "Access(urls=%r, url_file=%r, relay_file=%r)" % (
            self.urls, self.url_file, self.relay_file)  # the token is a secret

    @property
    def has_server(self) -> bool:
        return bool(self.urls or self.url_file or self.relay_file)

    def current_urls(self) -> List[str]:
        """The addresses to try now, in order: those of the file, which is read again each time, first.

        The last one may be the agent's socket: ``RELAY`` and its path.
        """
        from_file = (read_object(self.url_file) or {}).get("urls") if self.url_file else None
        urls: List[str] = []
        for url in [*(from_file if isinstance(from_file, list) else []), *self.urls]:
            if isinstance(url, str) and url.rstrip("/") not in urls:
                urls.append(url.rstrip("/"))
        relay = (read_object(self.relay_file) or {}).get("socket") if self.relay_file else None
        if isinstance(relay, str) and relay:
            urls.append(RELAY + relay)
        return urls

    def url_file_stamp(self) -> Optional[Tuple[int, ...]]:
        """Changes whenever a file with addresses does. None: there is none."""
        stamp: Tuple[int, ...] = ()
        for path in (self.url_file, self.relay_file):
            try:
                status = os.stat(path or "")
            except OSError:
                continue
            stamp += (status.st_mtime_ns, status.st_size, status.st_ino)
        return stamp or None


def access_from_document(document: Mapping[str, Any]) -> Access:
    """From ``{"urls", "token", "url_file", "ca_file", "relay_file"}``. Raises ValueError with a sentence."""
    urls, token = document.get("urls") or [], document.get("token") or ""
    files = [document.get(name) for name in ("url_file", "ca_file", "relay_file")]
    if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
        raise ValueError("access.urls must be a list of addresses like http://host:port")
    if not isinstance(token, str):
        raise ValueError("access.token must be a text")
    if not all(path is None or isinstance(path, str) for path in files):
        raise ValueError("access.url_file, access.ca_file and access.relay_file must be paths or null")
    return Access(tuple(urls), token, *(path or None for path in files))


def access_from_environment(environment: Mapping[str, str]) -> Optional[Access]:
    """From the keeper's variables; None where none of them is set. Raises ValueError with a sentence."""
    urls = tuple(url.strip() for url in environment.get(contract.ENV_URLS, "").split(",") if url.strip())
    url_file = environment.get(contract.ENV_URL_FILE) or None
    if not urls and url_file is None:
        return None
    token = environment.get(contract.ENV_TOKEN, "")
    token_file = environment.get(contract.ENV_TOKEN_FILE)
    if not token and token_file:
        text = read_text(token_file)
        if text is None:
            raise ValueError("%s names the file %s, which cannot be read" % (contract.ENV_TOKEN_FILE, token_file))
        token = text.strip()
    return Access(urls, token, url_file, environment.get(contract.ENV_CA) or None)


def save_access(folder: str, access: Access) -> None:
    """Keep it in the attempt's folder (0600) for a keeper that has to finish the attempt."""
    document: Dict[str, Any] = {"urls": list(access.urls), "token": access.token, "url_file": access.url_file,
                                "ca_file": access.ca_file, "relay_file": access.relay_file}
    write_file(os.path.join(folder, contract.ACCESS_FILE), json.dumps(document), secret=True)


def saved_access(folder: str) -> Optional[Access]:
    """What ``save_access`` kept, None where nothing was."""
    document = read_object(os.path.join(folder, contract.ACCESS_FILE))
    try:
        return None if document is None else access_from_document(document)
    except ValueError:
        return None

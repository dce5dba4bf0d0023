"""Reading files in the format of OpenSSH's known_hosts, line by line: one bad line says nothing of the others.

paramiko gives up a whole file at its first cut-off key, and knows neither patterns nor markers. Here a line
that cannot be read is left out and told once in the log. Lines marked ``@revoked`` count; those marked
``@cert-authority`` do not, because host certificates are not checked.
"""

from __future__ import annotations

import hmac
import logging
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko.hostkeys import HostKeyEntry

from trialkeeper.wildcards import shell_wildcards

logger = logging.getLogger(__name__)

_REVOKED, _CERTIFICATES = "@revoked", "@cert-authority"
_BLANKS = re.compile("[ \t]+")
_told: set[tuple[Path, bytes]] = set()
_telling = threading.Lock()


@dataclass
class FoundKeys:
    """What a file says of one host."""

    known: list[paramiko.PKey] = field(default_factory=list)
    revoked: list[paramiko.PKey] = field(default_factory=list)


def keys_of(file: Path, name: str) -> FoundKeys:
    """The keys of the host that known_hosts calls ``name``; none where there is no file. Raises OSError."""
    found = FoundKeys()
    try:
        lines = file.read_bytes().splitlines()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return found
    for number, line in enumerate(map(bytes.strip, lines), 1):
        if not line or line.startswith(b"#"):
            continue
        try:
            _read(line.decode(), name, found)
        except Exception as error:  # paramiko and what it is built on raise of many kinds for a broken key
            with _telling:
                if (file, line) in _told:
                    continue
                _told.add((file, line))
            logger.warning("line %d of %s cannot be read and is left out: %s", number, file,
                           error or type(error).__name__)
    return found


def _read(line: str, name: str, found: FoundKeys) -> None:
    fields = _BLANKS.split(line)
    marker = fields.pop(0) if line.startswith("@") else ""
    if marker == _CERTIFICATES:
        return
    if marker not in ("", _REVOKED):
        raise ValueError(f"the marker {marker} is not known")
    if not fields or not _matches(name.lower(), fields[0].split(",")):
        return
    entry = HostKeyEntry.from_line(" ".join(fields))
    if entry is None or entry.key is None:
        raise ValueError("it is truncated, or its key has an unknown type")
    (found.revoked if marker == _REVOKED else found.known).append(entry.key)


def _matches(name: str, written: list[str]) -> bool:
    """As OpenSSH does it, for a name in small letters: hashed names, ``*`` and ``?``; a name with ``!`` takes the whole
    line away from it.
    """
    matches = False
    for each in written:
        if each.startswith("|1|"):
            matches = matches or hmac.compare_digest(paramiko.HostKeys.hash_host(name, each).encode(), each.encode())
        elif _is_like(name, each.removeprefix("!")):
            if each.startswith("!"):
                return False
            matches = True
    return matches


def _is_like(name: str, pattern: str) -> bool:
    return shell_wildcards(pattern.lower().replace("[", "[[]")).matches(name)  # brackets stand for themselves

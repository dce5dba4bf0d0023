"""The way to a machine: which hosts are passed, after ``~/.ssh/config`` of the server's user was looked at.

As OpenSSH does it: what the settings say goes before what the file says; a ProxyCommand or a further
ProxyJump counts for the host that is connected first, the others are reached through the one before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import paramiko

from trainingservice.ssh.host_keys import host_name
from trainingservice.ssh.login_settings import SshLoginSettings
from trainingservice.ssh.problems import MachineProblem
from trainingservice.words.shown_value import shown
from trialkeeper.whole_number import whole_number

CONFIG_FILE = Path("~/.ssh/config")
#: What may stand in a command for the shell; the same caution as OpenSSH's own.
_HARMLESS = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9._:%@-]*")
#: A line whose command is run while the file is looked at.
_MATCH_EXEC = re.compile(r"^\s*match\b.*\bexec\b", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Hop:
    """One host on the way."""

    #: As the settings call it.
    written: str
    host: str
    port: int
    user: str | None
    #: Under which name its key is looked up.
    key_name: str
    key_files: tuple[str, ...] = ()
    #: ProxyCommand that leads to it, for a shell; "" for none.
    command: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """What it may be called where fingerprints are listed, the most exact first."""
        return f"{self.written}:{self.port}", self.written, f"{self.host}:{self.port}", self.host


def way_to(settings: SshLoginSettings) -> list[Hop]:
    """The hops to the machine, the machine last. Raises MachineProblem."""
    path = CONFIG_FILE.expanduser()
    try:
        text = path.read_text() if path.is_file() else ""
        paramiko.SSHConfig.from_text(text)
    except Exception as error:
        raise MachineProblem(f"{path} cannot be read: {error}. Correct the file.", needs_person=True) from error
    return _way(text, settings.host, settings.port, settings.user, settings.proxy_jump, ())


def borrows_from_the_server(settings: SshLoginSettings) -> bool:
    """Whether keys of the user the server runs as, or hosts and commands of that user's settings, lead there."""
    if settings.password is None or settings.proxy_jump is not None:
        return True
    if not CONFIG_FILE.expanduser().is_file():
        return False
    try:
        hops = way_to(settings)
    except MachineProblem:  # nothing leads there
        return False
    return len(hops) > 1 or bool(hops[0].command)


def _way(text: str, host: str, port: int | None, user: str | None, jumps: str | None,
         before: tuple[str, ...]) -> list[Hop]:
    hop, configured = _hop(text, host, port, user)
    parts = [part.strip() for part in (jumps or configured).split(",") if part.strip()]
    if not parts:
        return [hop]
    if host in before:
        raise MachineProblem(f"The ProxyJump lines in ~/.ssh/config lead in a circle: {' -> '.join((*before, host))}. "
                             "Correct the file.", needs_person=True)
    hops: list[Hop] = []
    for part in parts:
        jump_user, _, place = part.rpartition("@")
        jump_host, _, jump_port = place.partition(":") if not place.startswith("[") else _bracketed(place)
        number = whole_number(jump_port)
        if not jump_host or (jump_port and number is None):
            raise MachineProblem(f"proxyJump of {host}: {shown(part)} is not of the form user@host:port.",
                                 needs_person=True)
        if hops:
            hops.append(replace(_hop(text, jump_host, number, jump_user or None)[0], command=""))
        else:
            hops += _way(text, jump_host, number, jump_user or None, None, (*before, host))
    return [*hops, replace(hop, command="")]


def _bracketed(place: str) -> tuple[str, str, str]:
    host, _, rest = place[1:].partition("]")
    return host, ":", rest.lstrip(":")


def _hop(text: str, host: str, port: int | None, user: str | None) -> tuple[Hop, str]:
    """The hop and the jump hosts that the file names for it."""
    if _MATCH_EXEC.search(text) and not _are_harmless(host, user):
        raise _not_allowed(host, user, "a Match exec")
    # the first value counts, also in the %p and %r of a ProxyCommand
    given = "".join(f"{name} {value}\n" for name, value in (("Port", port), ("User", user)) if value)
    try:
        found = paramiko.SSHConfig.from_text(given + text).lookup(host)
    except Exception as error:  # a Match that cannot be evaluated, for instance
        raise MachineProblem(f"~/.ssh/config cannot be used for {host}: {error}. Correct the file.",
                             needs_person=True) from error
    address, real_port = found.get("hostname", host), int(found.get("port", 22))
    real_user = user or found.get("user")
    jump = str(found.get("proxyjump", "") or "")
    command = str(found.get("proxycommand", "") or "")
    if command and not _are_harmless(host, address, real_user):
        raise _not_allowed(host, real_user, "the ProxyCommand")
    return Hop(host, address, real_port, real_user, found.get("hostkeyalias") or host_name(address, real_port),
               tuple(found.get("identityfile", ())), command), "" if jump.lower() == "none" else jump


def _are_harmless(*names: str | None) -> bool:
    return all(_HARMLESS.fullmatch(name) for name in names if name)


def _not_allowed(host: str, user: str | None, where: str) -> MachineProblem:
    return MachineProblem(f"Host {host} or user {user} contains characters that are not allowed in {where} of "
                          "~/.ssh/config. Correct them.", needs_person=True)

"""Jobs of an OpenPAI cluster's double: what is kept of them, and their states."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.container_process import ContainerProcess

_TAG = re.compile(r"<%\s*([^\s#^/>{&=!][^%]*?)\s*%>")
_SECRETS_LINES = re.compile(r"(^secrets:)[\s\S]*?(^\w)", re.MULTILINE | re.ASCII)
_STATES = {"AttemptCreationPending": "WAITING", "AttemptPreparing": "WAITING", "AttemptRunning": "RUNNING",
           "AttemptDeleting": "STOPPING"}


def masked(text: str) -> str:
    """What is kept of a document: all but what stands between the line ``secrets:`` and the next that begins a word."""
    return _SECRETS_LINES.sub(r'\1 "******"\n\2', text + "\nZ", count=1)[:-2]


@dataclass(frozen=True)
class Event:
    """Of a job's pod. ``last``: when it was seen last, seconds since 1970; None where Kubernetes does not say."""

    message: str
    last: float | None
    type: str = "Warning"


@dataclass
class Job:
    user: str
    name: str
    document: dict[str, Any]
    #: As it was submitted; "" for a job that the rest-server did not make.
    text: str = ""
    #: The script of each role.
    scripts: dict[str, str] = field(default_factory=dict)
    submitted: float = field(default_factory=time.time)
    sub_state: str = "AttemptCreationPending"
    execution: str = "START"
    exit_code: int | None = None
    user_code: int | None = None
    launched: float | None = None
    completed: float | None = None
    retries: int = 0
    mounted: list[dict[str, Any]] = field(default_factory=list)
    containers: list[ContainerProcess] = field(default_factory=list)
    evicting: bool = False

    @property
    def queue(self) -> str:
        return (self.document.get("defaults") or {}).get("virtualCluster") or "default"

    @property
    def state(self) -> str:
        if self.sub_state != "Completed":
            return _STATES[self.sub_state]
        return {0: "SUCCEEDED", -210: "STOPPED", -220: "STOPPED"}.get(self.exit_code or 0, "FAILED")


def with_secrets(script: str, secrets: Mapping[str, Any]) -> str:
    """What the runtime makes of a role's script in the container (src/common/utils.py of openpai-runtime, on pystache).

    Of a job without secrets nothing. Else all names that are left in it are filled in, as HTML, and those that nobody
    knows with nothing.
    """
    def value(found: re.Match[str]) -> str:
        kind, _, name = found[1].partition(".")
        return html.escape(str(secrets.get(name, ""))) if kind == "$secrets" else ""
    return _TAG.sub(value, script) if secrets else script

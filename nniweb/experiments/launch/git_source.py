"""Where code is fetched from with git: an address, and what of it is meant. Checked without asking anybody."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from nniweb.experiments.errors import Refused

MOST_CHARACTERS = 1000
#: git@host:path, as people copy it from the pages of their Git server.
_SCP_LIKE = re.compile(r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9._-]*)@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):"
                       r"(?P<path>[^-:].*)")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|[0-9A-Fa-f:.]+")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+@-]*")
_NOT_IN_REFS = ("..", "//", "@{", ".lock/")


@dataclass(frozen=True)
class GitSource:
    """``url`` holds no secret; ``ref`` "" is the default branch; ``folder`` "" the whole repository."""

    url: str
    ref: str = ""
    folder: str = ""

    def __str__(self) -> str:
        return self.url + (f", {self.ref}" if self.ref else "") + (f", folder {self.folder}" if self.folder else "")

    def document(self) -> dict[str, str]:
        return asdict(self)

    @property
    def is_ssh(self) -> bool:
        return not self.url.lower().startswith("https://")

    @property
    def place(self) -> tuple[str, str, int]:
        """User ("" where none is named), host and port."""
        if "://" not in self.url:
            found = _SCP_LIKE.fullmatch(self.url)
            assert found is not None  # it was checked
            return found["user"] or "", found["host"], 22
        parts = urlsplit(self.url)
        return parts.username or "", parts.hostname or "", parts.port or (22 if self.is_ssh else 443)

    def inside(self, folder: str) -> GitSource:
        """The same with a folder further down."""
        below = PurePosixPath(self.folder, folder).as_posix()
        return GitSource(self.url, self.ref, "" if below == "." else below)


def read_git_source(url: Any, ref: Any = "", folder: Any = "") -> GitSource:
    """What a person wrote into the fields git_url, git_ref and git_folder. Raises Refused, naming each that is wrong;
    a secret that was written into the address is not repeated.
    """
    found = [(field, problem) for field, problem in (
        ("git_url", _url_problem(url)), ("git_ref", _ref_problem(ref)), ("git_folder", _folder_problem(folder)))
        if problem]
    if found:
        raise Refused.for_fields(found)
    path = PurePosixPath(folder or "").as_posix()
    return GitSource(str(url).strip(), str(ref or "").strip(), "" if path == "." else path)


def _url_problem(url: Any) -> str:
    if not isinstance(url, str) or not url.strip():
        return "must be the address of a Git repository, such as https://git.example/me/code.git."
    url = url.strip()
    if len(url) > MOST_CHARACTERS or not url.isprintable() or " " in url or "\\" in url:
        return f"must be an address of at most {MOST_CHARACTERS} characters, without spaces."
    if "://" not in url and _SCP_LIKE.fullmatch(url):
        return ""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "cannot be read as an address. Write it as https://git.example/me/code.git."
    if parts.scheme.lower() not in ("https", "ssh"):
        return "must begin with https:// or ssh:// (or be written as git@host:path); other protocols are not supported."
    if parts.password is not None:
        return ("must not contain a password or token, because addresses are stored and shown. Write only the user "
                "name into it. Give the token in git_token, which is stored encrypted until the code is fetched.")
    if parts.username is not None and not _USER.fullmatch(parts.username):
        return "contains a user name that is not valid."
    if not parts.hostname or not _HOST.fullmatch(parts.hostname):
        return "has no host name. Write it as https://git.example/me/code.git."
    if not parts.path.strip("/"):
        return "names no repository. Write the repository's path after the host."
    return "must end with the repository's path; leave out the part that begins with ? or #." \
        if parts.query or parts.fragment else ""


def _ref_problem(ref: Any) -> str:
    if ref in (None, ""):
        return ""
    if not isinstance(ref, str) or len(ref) > 250 or not _REF.fullmatch(ref.strip()) \
            or any(part in ref for part in _NOT_IN_REFS) or ref.strip().endswith(("/", ".", ".lock")):
        return "must be a branch, a tag, or the full hash of a commit (40 digits)."
    return ""


def _folder_problem(folder: Any) -> str:
    if folder in (None, ""):
        return ""
    if not isinstance(folder, str) or len(folder) > MOST_CHARACTERS or not folder.isprintable():
        return "must be a folder of the repository, such as src/training."
    path = PurePosixPath(folder)
    return "must be inside the repository; write it without / at the start and without .." \
        if path.is_absolute() or ".." in path.parts or ".git" in (part.lower() for part in path.parts) else ""

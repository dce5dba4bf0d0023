"""Below which folders of the server a path from a request may lie, and which of its places no path may name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Closed:
    """A file or folder that is not for experiments. ``what``: in words, for a sentence: "... is in WHAT"."""

    path: Path
    what: str


@dataclass(frozen=True)
class CodeRoots:
    """``roots``: without any, no folder of the server may be named.

    ``closed``: nothing in these may be named, and no folder that holds one of them, because all that lies in a named
    folder goes to the trials. ``hidden_in``: the home folder of the server's own user; what is hidden there (its name
    begins with a dot: keys for SSH, clouds and clusters) counts as closed, unless a root lies there. With
    ``hidden_files`` files may be named there, though no folders. ``homes_near``: of other people, as far as a path may
    lie in them or hold them; closed, unless a root lies there. ``brought``: a folder that was made for this request and
    may be named, wherever it is. All but ``roots`` are resolved.
    """

    roots: tuple[Path, ...] = ()
    closed: tuple[Closed, ...] = ()
    hidden_in: Path | None = None
    hidden_files: bool = False
    homes_near: Callable[[Path], Sequence[Closed]] = lambda path: ()
    brought: Path | None = None

    def problem(self, path: Path, written: str) -> str:
        """Why this path may not be named, "" where it may. ``path`` must be resolved, so that no link leads out."""
        if self.brought is not None and path.is_relative_to(self.brought):
            return ""
        if not self.roots:
            return (f"{written} is a path on the server, and you do not have the permission to name files and folders "
                    "there; upload the file together with the code, or ask an administrator")
        roots = [root.resolve() for root in self.roots]
        if not any(path.is_relative_to(root) for root in roots):
            return (f"{written} is not below a folder of the server that may be named here "
                    f"({', '.join(map(str, self.roots))}); an administrator of the server can add a folder with "
                    "NNIWEB_CODE_ROOTS")
        for closed in self.closed:
            if path.is_relative_to(closed.path):
                return f"{written} is in {closed.what}; name another path"
            if closed.path.is_relative_to(path):
                return _contains(written, closed)
        for home in self.homes_near(path):
            if path.is_relative_to(home.path) and not _is_opened(path, home.path, roots):
                return (f"{written} is in {home.what}; name another path, or ask an administrator of the server to add "
                        "it with NNIWEB_CODE_ROOTS")
            if home.path.is_relative_to(path) and home.path != path:
                return _contains(written, home)
        return self._problem_with_hidden(path, written, roots)

    def _problem_with_hidden(self, path: Path, written: str, roots: list[Path]) -> str:
        home = self.hidden_in
        if home is None:
            return ""
        if home.is_relative_to(path):
            return _contains(written, Closed(home, "the home folder of the server's user, which contains keys"))
        if not path.is_relative_to(home) or not path.relative_to(home).parts[0].startswith("."):
            return ""
        hidden = home / path.relative_to(home).parts[0]
        if _is_opened(path, hidden, roots) or (self.hidden_files and not path.is_dir()):
            return ""
        return (f"{written} is in {hidden}, which contains keys and settings of the server's user; name another path, "
                "or ask an administrator of the server to add it with NNIWEB_CODE_ROOTS")


def _is_opened(path: Path, closed: Path, roots: Sequence[Path]) -> bool:
    """Whether a root was set to a place inside of what is closed otherwise, and the path lies there."""
    return any(root.is_relative_to(closed) and path.is_relative_to(root) for root in roots)


def _contains(written: str, closed: Closed) -> str:
    return f"{written} contains {closed.what}; name a folder that contains only the code"


#: For whoever starts a command on the server and can read there what its user can.
ANYWHERE = (Path("/"),)

"""Below which folders of the server a path from a request may lie."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CodeRoots:
    """``roots``: without any, no folder of the server may be named. ``never``: nothing in these may be."""

    roots: tuple[Path, ...] = ()
    never: tuple[Path, ...] = ()

    def problem(self, path: Path, written: str) -> str:
        """Why this path may not be named, "" where it may. ``path`` must be resolved, so that no link leads out."""
        if not self.roots:
            return (f"{written} is on the server, where naming files and folders is a right that you do not have; "
                    "upload what is needed together with the code, or ask an administrator")
        if any(path.is_relative_to(folder.resolve()) for folder in self.never):
            return f"{written} is in the data folder of the server, which holds its keys; name another folder"
        if any(path.is_relative_to(root.resolve()) for root in self.roots):
            return ""
        return (f"{written} is not below the folders of the server that may be named here "
                f"({', '.join(map(str, self.roots))}); whoever runs the server can add one with NNIWEB_CODE_ROOTS")

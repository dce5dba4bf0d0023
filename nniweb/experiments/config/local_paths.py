"""Paths in config files: ``~`` is expanded, relative ones start from the file's own folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nniweb.experiments.config.code_roots import CodeRoots
from trainingservice.refused_values import placeholder_sentence


@dataclass(frozen=True)
class LocalPaths:
    """Turns paths as written into absolute ones. Its errors are ValueErrors with a sentence."""

    #: Resolved, if it is to be checked against ``roots``.
    base_directory: Path | None
    #: False: paths are made absolute but not looked at (they are on another machine, or come later).
    must_exist: bool = True
    #: Where paths may lead to; None: anywhere.
    roots: CodeRoots | None = None

    def absolute(self, written: str) -> Path:
        """The path with links resolved."""
        if not written.strip():
            raise ValueError("must not be empty; give a path")
        if placeholder := placeholder_sentence(written):
            raise ValueError(placeholder)
        try:
            path = Path(written).expanduser()
        except RuntimeError as error:
            raise ValueError(f"{written} cannot be used: the server has no user of this name") from error
        if not path.is_absolute():
            if self.base_directory is None:
                raise ValueError(f"{written} is a relative path; choose the code folder in which it starts "
                                 "(base_directory over REST), or give an absolute path")
            path = self.base_directory / path
        try:
            path = path.resolve()
        except (OSError, RuntimeError) as error:
            raise ValueError(f"{written} cannot be used as a path") from error
        if self.roots is not None and (problem := self.roots.problem(path, written)):
            raise ValueError(problem)
        return path

    def folder_problem(self, path: Path) -> str:
        """Why this is no folder that can be used, "" where it is one."""
        return self._problem(path, "folder")

    def file_problem(self, path: Path) -> str:
        """Why this is no file that can be used, "" where it is one."""
        return self._problem(path, "file")

    def _problem(self, path: Path, kind: str) -> str:
        if not self.must_exist:
            return ""
        try:
            str(path).encode()
        except UnicodeEncodeError:
            return f"the path {path} is not UTF-8, so it cannot be stored; rename the {kind} or a folder above it"
        try:
            if (path.is_dir() if kind == "folder" else path.is_file()):
                return ""
            return f"{path} is not a {kind}" if path.exists() else f"there is no {kind} {path}"
        except OSError as error:
            return f"{path} cannot be used: {error.strerror}"

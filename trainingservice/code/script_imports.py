"""Which modules a script imports at its top, read from its text: nothing is imported or run.

Modules that lie beside the script are its own. They are read too, because their imports are the script's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Bounds: files that are read, bytes of each and of all, names that are returned. What Python's parser makes of a file
#: takes up to a thousand times its bytes, and nothing else of the server's process goes on meanwhile.
MOST_FILES, LONGEST_FILE, MOST_BYTES, MOST_NAMES = 50, 128 * 1024, 512 * 1024, 200


@dataclass(frozen=True)
class Import:
    """The top-level name of a module, and where it is imported first: ``file`` as a path below the code folder."""

    name: str
    file: str
    line: int


def script_imports(code: Path, folder: str, *, script: str = "", module: str = "") -> list[Import]:
    """What ``python3 SCRIPT`` (or ``-m MODULE``), called in ``code``/``folder``, imports at its top and does not have
    beside it; [] where there is nothing to read, or the script changes ``sys.path``.

    Imports within ``try``, ``if`` and functions do not count: the script may do without them. At most ``MOST_NAMES``.
    """
    code = code.resolve()
    start = code / folder
    first = start / script if script else _file_of(start, module)
    if first is None or not _is_inside(first, code):
        return []
    first = first.resolve()
    # Python looks beside a script for its modules, links followed, and with -m in the folder where it is called
    beside = first.parent if script else start.resolve()
    found: dict[str, Import] = {}
    to_read, known, left = [first], {first}, MOST_BYTES
    while to_read and len(known) <= MOST_FILES:
        path = to_read.pop(0)
        source = _source(path)
        left -= len(source)
        if left < 0:
            break
        tree = _tree(source)
        if tree is None:
            continue
        if _changes_path(tree):
            return []
        for names, level, line in _imports(tree):
            if level > len(path.parents):
                continue
            place = beside if level == 0 else path.parents[level - 1]
            own = {file.resolve() for name in names
                   if (file := _file_of(place, name)) is not None and _is_inside(file, code)} - known
            to_read += sorted(own)
            known |= own
            top = names[0].partition(".")[0] if names else ""
            if level == 0 and top not in found and not _is_there(beside, top):
                found[top] = Import(top, path.relative_to(code).as_posix(), line)
            if len(found) == MOST_NAMES:  # each takes a look into the folder
                return list(found.values())
    return list(found.values())


def _is_inside(path: Path, code: Path) -> bool:
    """Whether it is a file below the code folder, links followed."""
    try:
        return path.is_file() and path.resolve().is_relative_to(code)
    except (OSError, RuntimeError, ValueError):
        return False


def _file_of(folder: Path, module: str) -> Path | None:
    """The source of a module below the folder."""
    if not module:
        return None
    path = folder.joinpath(*module.split("."))
    for candidate in (path.with_name(f"{path.name}.py"), path / "__init__.py", path / "__main__.py"):
        try:
            if candidate.is_file():
                return candidate
        except (OSError, ValueError):
            return None
    return None


def _is_there(folder: Path, name: str) -> bool:
    """Whether Python would find a module of this name in the folder: a source, a package, an extension module."""
    try:
        return (folder / name).is_dir() or (folder / f"{name}.py").is_file() or any(folder.glob(f"{name}.*.so"))
    except (OSError, ValueError):
        return True  # nothing is claimed of what cannot be looked at


def _source(path: Path) -> bytes:
    """b"" where it cannot be read, or is too long."""
    try:
        with open(path, "rb") as stream:
            source = stream.read(LONGEST_FILE + 1)
    except OSError:
        return b""
    return source if len(source) <= LONGEST_FILE else b""


def _tree(source: bytes) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imports(tree: ast.Module) -> Iterator[tuple[list[str], int, int]]:
    """Of each import statement of the module itself: modules it may read, level, line. The first is the one named."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield [alias.name], 0, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            # "from . import layers" reads layers.py, "from models import net" maybe models/net.py
            inner = [f"{base}.{alias.name}" if base else alias.name for alias in node.names if alias.name != "*"]
            yield ([base, *inner] if base else inner), node.level, node.lineno


def _changes_path(tree: ast.Module) -> bool:
    """Whether the module refers to ``sys.path`` or the module ``site``: then it may find more than is seen here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "path" and isinstance(node.value, ast.Name) \
                and node.value.id == "sys":
            return True
        if isinstance(node, ast.Attribute) and node.attr == "addsitedir":
            return True
    return False

"""The imports of the browser's scripts in static/js."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "static" / "js"
#: From above to below: a folder imports from those below it alone. ``experiment`` stands for its own level; its tabs
#: are folders in it.
LAYERS = (("pages", "experiment/TAB"), ("experiment", "new_experiment"), ("experiment/dialogs",), ("charts", "trial"),
          ("ui",), ("lib",))
_IMPORT = re.compile(r"""\b(?:from|import)\s*\(?\s*["']([^"']+)["']""")


def imports_of_scripts() -> dict[str, set[str]]:
    """Which scripts each script imports, by their paths below static/js. Raises ValueError for one that is missing."""
    found: dict[str, set[str]] = {}
    for path in sorted(SCRIPTS.rglob("*.js")):
        name = path.relative_to(SCRIPTS).as_posix()
        found[name] = set()
        for target in _IMPORT.findall(path.read_text()):
            if not target.startswith("."):
                continue  # a library
            other = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
            if not (SCRIPTS / other).is_file():
                raise ValueError(f"static/js/{name} imports {target}, which is not there")
            found[name].add(other)
    return found


def folder_of(script: str) -> str:
    """The folder as ``LAYERS`` names it."""
    folder = posixpath.dirname(script)
    is_tab = folder.startswith("experiment/") and folder != "experiment/dialogs"
    return "experiment/TAB" if is_tab else folder


def arrows_against_layers(imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Imports of a script in a folder that does not stand below the importer's.

    Imports within a folder are left out.
    """
    level = {folder: number for number, folders in enumerate(LAYERS) for folder in folders}
    return sorted((script, other) for script, others in imports.items() for other in others
                  if posixpath.dirname(script) != posixpath.dirname(other)
                  and level[folder_of(script)] >= level[folder_of(other)])


def files_per_folder() -> dict[str, int]:
    """Scripts on one level of each folder."""
    counts: dict[str, int] = defaultdict(int)
    for path in SCRIPTS.rglob("*.js"):
        counts[path.parent.relative_to(ROOT).as_posix()] += 1
    return dict(counts)

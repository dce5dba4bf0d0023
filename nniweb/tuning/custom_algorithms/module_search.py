"""Where the processes of tuners look for modules, asked without importing any."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

import nniweb


def module_folders() -> list[str]:
    """Folders (absolute) in which tuner processes of this process find modules, in their order."""
    package_root = str(Path(nniweb.__file__).resolve().parents[1])
    folders = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), *sys.path]
    return list(dict.fromkeys([package_root, *(os.path.abspath(path) for path in folders if path)]))


def is_findable(module: str, folders: Sequence[str]) -> bool:
    """Whether the module lies in these folders. Of a module in a package with ``__init__`` only the first package is
    looked for: packages may find their modules in other ways.
    """
    top, *rest = module.split(".")
    if top in sys.builtin_module_names:
        return True
    spec = PathFinder.find_spec(top, list(folders))
    if spec is None or spec.loader is not None:
        return spec is not None
    return bool(rest) and any(  # a folder without __init__
        Path(place, *rest).is_dir() and Path(place, *rest, "__init__.py").is_file()
        or any(Path(place, *rest[:-1]).glob(f"{rest[-1]}.*")) for place in spec.submodule_search_locations or ())


def is_installed_otherwise(module: str) -> bool:
    """Whether this process finds the first package in no folder, but as installers of source trees arrange it."""
    top = module.split(".")[0]
    try:
        return PathFinder.find_spec(top) is None and importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):  # half loaded already
        return True

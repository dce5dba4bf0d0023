"""What the official ``nni`` package, where it is installed on the server, adds to the modules that stand in for it:
its own algorithms (``nni.algorithms``), and whatever a user's class imports that the stand-ins lack.

The stand-ins come first: an algorithm of the official package gets the base classes from here, so it speaks with this
server. The package's own ``__init__`` is not run.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any


@functools.cache
def official_folder() -> Path | None:
    """The folder of the installed package; None where there is none. To be called before the path is changed."""
    spec = PathFinder.find_spec("nni", sys.path)
    return Path(spec.origin).parent if spec is not None and spec.origin and spec.loader is not None else None


def complete(stand_in: ModuleType, name: str) -> None:
    """Let a module that stands in for ``name`` (``nni.utils``) find what the official one has and it has not."""
    folder = official_folder()
    if folder is None:
        return
    place = folder.joinpath(*name.split(".")[1:])
    if place.is_dir():
        known = list(getattr(stand_in, "__path__", []))
        stand_in.__path__ = [*known, *({str(place)} - set(known))]
    if name != "nni" and (file := place / "__init__.py" if place.is_dir() else place.with_suffix(".py")).is_file():
        stand_in.__getattr__ = _from_file(name, file, getattr(stand_in, "__getattr__", None))  # type: ignore[method-assign]


def _from_file(name: str, file: Path, otherwise: Callable[[str], Any] | None) -> Callable[[str], Any]:
    """A module's ``__getattr__``. One module stands in for several: ``otherwise`` is that of another name."""

    @functools.cache
    def official() -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"{name}.official", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # relative imports within it lead to the stand-ins
        module.__package__ = name if file.name == "__init__.py" else name.rpartition(".")[0]
        spec.loader.exec_module(module)
        return module

    def find(attribute: str) -> Any:
        if not attribute.startswith("__"):
            try:
                return getattr(official(), attribute)
            except ImportError as error:
                raise AttributeError(f"{name} has no {attribute} here, and the installed one cannot be used: {error}"
                                     ) from error
            except AttributeError:
                if otherwise is not None:
                    return otherwise(attribute)
        raise AttributeError(f"module {name} has no attribute {attribute}")

    return find

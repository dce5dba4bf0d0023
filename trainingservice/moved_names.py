"""Old names of modules that platforms of third parties may import: they still lead to the modules, with a warning.

``trainingservice.keeper_receiver`` is found as ``trainingservice.receiver.keeper_receiver``. Where a package has taken
the place of a module (``trainingservice.polling``), the package asks ``moved_member`` for what it does not have.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

#: Below ``trainingservice``: the old name of a module, and its present one.
MOVED = {
    "code_archive": "code.code_archive",
    "collected_journals": "keeper.collected_journals",
    "direct_first": "shared_folder.direct_first",
    "end_in_output": "keeper.end_in_output",
    "gpu_slots": "gpus.gpu_slots",
    "job_record": "polling.job_record",
    "keeper_bundle": "keeper.keeper_bundle",
    "keeper_exit": "keeper.keeper_exit",
    "keeper_receiver": "receiver.keeper_receiver",
    "keeper_variables": "keeper.keeper_variables",
    "output_folder": "files.output_folder",
    "polled_platform": "polling.polled_platform",
    "rest_client": "rest.rest_client",
    "shared_folder_service": "shared_folder.service",
    "shared_storage": "shared_folder.shared_storage",
    "storage_rehearsal": "shared_folder.storage_rehearsal",
}


class _MovedModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        package, _, module = name.partition(".")
        if package != __package__ or module not in MOVED:
            return None
        return importlib.machinery.ModuleSpec(name, self)

    def exec_module(self, module: ModuleType) -> None:
        now = f"{__package__}.{MOVED[module.__name__.partition('.')[2]]}"
        warnings.warn(f"{module.__name__} is called {now} now; the old name goes with the next major version.",
                      DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = importlib.import_module(now)  # what is imported is what is found here afterwards


def find_moved_modules() -> None:
    """Let imports find the old names. More than once does no harm."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules())


def moved_member(package: str, name: str, modules: Sequence[str]) -> Any:
    """What a module that this package replaced had under this name: of the first of its ``modules`` that has it."""
    if not name.startswith("_"):
        for module in modules:
            now = f"{package}.{module}"
            if hasattr(found := importlib.import_module(now), name):
                warnings.warn(f"{package}.{name} is in {now} now; {package} has it until the next major version.",
                              DeprecationWarning, stacklevel=3)
                return getattr(found, name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")

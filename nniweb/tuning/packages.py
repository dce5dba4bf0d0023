"""Which packages are installed that not every installation has."""

import importlib.util
import sys
from collections.abc import Iterable


def not_installed(modules: Iterable[str]) -> list[str]:
    """Those of these modules that cannot be imported. None is loaded."""
    return [module for module in modules if not _is_installed(module)]


def _is_installed(module: str) -> bool:
    if module in sys.modules:
        return sys.modules[module] is not None
    return importlib.util.find_spec(module) is not None

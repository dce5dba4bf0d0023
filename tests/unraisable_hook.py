"""Finalizers that fail where hardly any stack is left: pytest is told of them later, and no test fails by that.

A test of something nested very deeply goes to the end of the stack. Memory is made there, so garbage that other tests
left may be collected there; its finalizers fail for want of stack, and so did pytest when it wrote that down.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class ToldLater:
    """While it is in use, what fails is kept, which takes no frame, until ``tell``."""

    def __init__(self) -> None:
        self._hook: Callable[[Any], object] = sys.unraisablehook
        self._kept: list[Any] = []

    def begin(self) -> None:
        self._hook, sys.unraisablehook = sys.unraisablehook, self._kept.append

    def tell(self) -> None:
        while self._kept:
            self._hook(self._kept.pop(0))

    def end(self) -> None:
        sys.unraisablehook = self._hook
        self.tell()

"""A platform that is asked at intervals."""

from typing import Any

from trainingservice.moved_names import moved_member


def __getattr__(name: str) -> Any:
    return moved_member(__name__, name, ("service",))

"""What is wrong with a config file: one error per place, all of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ConfigError:
    """One thing that is wrong.

    ``field`` is the path as the caller spelt it (``trialConcurrency``, ``trial.codeDir``,
    ``trainingService.machineList[0].port``), "" for the file as a whole. ``line`` and ``column``
    count from 1 and are None where the place is not in a text.
    """

    field: str
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line is not None else ""
        return f"{place}{self.field}: {self.message}" if self.field else f"{place}{self.message}"


class ConfigInvalid(Exception):
    """The config cannot be used. ``errors`` holds everything that was found, in the order of the file."""

    def __init__(self, errors: Iterable[ConfigError]) -> None:
        self.errors = list(errors)
        super().__init__("\n".join(str(error) for error in self.errors))

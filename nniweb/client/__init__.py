"""A server of NNI Web from another program or machine: launch, wait, results as records.

    from nniweb.client import Client

    client = Client("https://nni.example.org")
    experiment = client.launch("config.yml").wait()
    print(experiment.best_trial().parameters)

Needs ``requests`` and ``PyYAML`` (completion ``argcomplete``, too); neither Django nor settings.
docs/client.md is its guide.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nniweb.client.errors import (
    CannotReach,
    ClientError,
    Conflict,
    FieldError,
    MayBeDone,
    NotFound,
    Refused,
    TokenTrouble,
    WaitedTooLong,
)
from nniweb.client.records import Records

if TYPE_CHECKING:
    from nniweb.client.connection import Client
    from nniweb.client.experiment import Experiment, Trial

__all__ = ["CannotReach", "Client", "ClientError", "Conflict", "Experiment", "FieldError", "MayBeDone", "NotFound",
           "Records", "Refused", "TokenTrouble", "Trial", "WaitedTooLong"]

#: Loaded when they are used first: ``requests`` comes with them, which the words of this package do not need.
_LOADED_LATER = {"Client": "nniweb.client.connection", "Experiment": "nniweb.client.experiment",
                 "Trial": "nniweb.client.experiment"}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATER:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(_LOADED_LATER[name]), name)

"""A server of NNI Web from another program or machine: launch, wait, results as records.

    from nniweb.client import Client

    client = Client("https://nni.example.org")
    experiment = client.launch("config.yml").wait()
    print(experiment.best_trial().parameters)

or, from a function to a finished search, with a server that is started where none runs,

    from nniweb.client import run

    experiment = run(function, {"x": {"_type": "uniform", "_value": [0, 1]}}, trials=20)

Needs ``requests`` and ``PyYAML`` (completion ``argcomplete``, too); neither Django nor settings.
docs/client.md is its guide, docs/start-from-python.md that of ``run``.
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
    from nniweb.client.own_server import connect
    from nniweb.client.running import run

__all__ = ["CannotReach", "Client", "ClientError", "Conflict", "Experiment", "FieldError", "MayBeDone", "NotFound",
           "Records", "Refused", "TokenTrouble", "Trial", "WaitedTooLong", "connect", "run"]

#: Loaded when they are used first: ``requests`` comes with them, which the words of this package do not need.
_LOADED_LATER = {"Client": "nniweb.client.connection", "Experiment": "nniweb.client.experiment",
                 "Trial": "nniweb.client.experiment", "connect": "nniweb.client.own_server",
                 "run": "nniweb.client.running"}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATER:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(_LOADED_LATER[name]), name)

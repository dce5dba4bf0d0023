"""A server of NNI Web from another program or machine: launch, wait, results as records.

    from nniweb.client import Client

    client = Client("https://nni.example.org")
    experiment = client.launch("config.yml").wait()
    print(experiment.best_trial().parameters)

Needs ``requests`` and ``PyYAML`` (completion ``argcomplete``, too); neither Django nor settings.
docs/client.md is its guide.
"""

from nniweb.client.connection import Client
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
from nniweb.client.experiment import Experiment, Trial
from nniweb.client.records import Records

__all__ = ["CannotReach", "Client", "ClientError", "Conflict", "Experiment", "FieldError", "MayBeDone", "NotFound",
           "Records", "Refused", "TokenTrouble", "Trial", "WaitedTooLong"]

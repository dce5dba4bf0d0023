"""How busy machines are, as their rows tell it, as long as that is recent."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from nniweb.experiments.models import Machine
from trainingservice.machine_load import MachineLoad

#: Seconds after which a worker writes a load down again that has not changed.
REFRESH_SECONDS = 60.0
#: What was written down longer ago is not shown: no worker asks the machine any more, or it does not answer.
RECENT = timedelta(seconds=3 * REFRESH_SECONDS)


def recent_load(machine: Machine, now: datetime) -> MachineLoad | None:
    """None where it is not known, or was known some minutes ago only."""
    if machine.seen_at is None or now - machine.seen_at > RECENT:
        return None
    return MachineLoad.from_document(machine.load)


def load_of_all(loads: Iterable[MachineLoad | None]) -> MachineLoad | None:
    """Those that are known, together; None where none is."""
    known = [load for load in loads if load is not None]
    if not known:
        return None
    return MachineLoad(sum(load.cpu_used for load in known), sum(load.cpu_total for load in known),
                       sum(load.memory_used for load in known), sum(load.memory_total for load in known))

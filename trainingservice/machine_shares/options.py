"""How much of its machine a trial asks for, on platforms that start trials on machines themselves."""

from __future__ import annotations

from pydantic import Field

from trainingservice.cluster_settings import TrialOptions
from trainingservice.memory_size import Megabytes

#: Most CPUs that anything may ask for.
MOST_CPUS = 99_999


class MachineShareOptions(TrialOptions):
    """Base of the options of such a platform. With several nodes each of them has as much."""

    trial_cpu_number: float | None = Field(
        default=None, gt=0, le=MOST_CPUS, allow_inf_nan=False, description=(
            "CPUs of each node of a trial. They are booked on its machine and are a limit. Default: nothing is booked, "
            "and no limit. (Not in NNI.)"))
    trial_memory_size: Megabytes | None = Field(
        default=None, ge=1, description=(
            'Memory of each node of a trial: megabytes, or a size with its unit such as "8gb". It is booked on its '
            "machine and is a limit. Default: nothing is booked, and no limit of its own. (Not in NNI.)"))

    def cpus_of_a_node(self) -> float | None:
        return self.trial_cpu_number

    def memory_of_a_node(self) -> int | None:
        return None if self.trial_memory_size is None else self.trial_memory_size * 1024 ** 2

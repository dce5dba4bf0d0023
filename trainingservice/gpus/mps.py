"""NVIDIA's Multi-Process Service (MPS) for trials that share a GPU, on machines whose administrator runs it.

With it kernels of several processes run on a GPU at the same time. Without it the GPU goes from one to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from trainingservice.trial_job import JobApplicationForm

_MEGABYTE = 1024 ** 2


def _is_absolute(value: str) -> str:
    if not value.startswith("/") or not value.isprintable():
        raise ValueError("expected an absolute path, such as /tmp/nvidia-mps")
    return value


#: Folder of the control daemon's pipes, as settings have it.
PipeDirectory = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_is_absolute)]
#: Share of a GPU's processors that a client may use.
ThreadPercentage = Annotated[int, Field(ge=1, le=100)]


@dataclass(frozen=True)
class Mps:
    """What an administrator says of it. ``pipe_directory`` None: trials do not use it."""

    pipe_directory: str | None = None
    thread_percentage: int | None = None

    @property
    def is_used(self) -> bool:
        return self.pipe_directory is not None

    def variables(self, form: JobApplicationForm, memory: int) -> Mapping[str, str]:
        """For a job that holds ``memory`` bytes of each of its GPUs; none where it has them as a whole (0).

        A size that a person has given is a limit as well. One that was learnt is not: it is exceeded by some.
        """
        if self.pipe_directory is None or not memory:
            return {}
        variables = {"CUDA_MPS_PIPE_DIRECTORY": self.pipe_directory}
        if self.thread_percentage is not None:
            variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(self.thread_percentage)
        if not form.gpu_demand.learns:
            # the GPUs that the trial sees are numbered from 0
            variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(
                f"{index}={memory // _MEGABYTE}M" for index in range(form.gpu_number or 0))
        return variables

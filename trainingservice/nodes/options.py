"""What an experiment may say of trials that run on several nodes, on platforms whose trials can."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from trainingservice.cluster_settings import TrialOptions

#: Most nodes of one trial.
MOST_NODES = 1000


class NodeOptions(TrialOptions):
    """Base of the options of such a platform."""

    elsewhere: ClassVar[Mapping[str, str]] = {}

    nodes: int = Field(
        default=1, ge=1, le=MOST_NODES,
        description="Number of nodes on which one trial runs at the same time, with one process each. The process with "
                    "rank 0 reports the results. See multi-node trials.")
    gpus_per_node: int | None = Field(
        default=None, ge=0, le=99_999, description="GPUs of each node. Default: trialGpuNumber.")

    def gpus_of_a_node(self, gpu_number: int | None) -> int | None:
        return gpu_number if self.gpus_per_node is None else self.gpus_per_node

    def gpus_of_a_trial(self, gpu_number: int | None) -> int:
        return self.nodes * (self.gpus_of_a_node(gpu_number) or 0)

    def cpus_of_a_trial(self) -> float:
        return self.nodes * (self.cpus_of_a_node() or 1.0)


def nodes_of(options: TrialOptions) -> int:
    """On how many nodes a trial with these options runs."""
    return options.nodes if isinstance(options, NodeOptions) else 1


def rank_rows(platform_state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a platform keeps of the ranks of a job in its ``platform_state``, in their order; [] of one with one node.

    Each has rank, machine, gpu_indices, status (of a trial job; "" before it was seen), exit_code and message.
    """
    rows = platform_state.get("ranks")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

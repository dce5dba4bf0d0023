"""What an experiment's config says of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nniweb.experiments.config.document import CheckpointsDocument
from nniweb.experiments.models import Experiment
from trainingservice.base import TrainingService
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.words.durations import parse_duration

#: Seconds a trial has to save a checkpoint and end where its experiment does not say.
DEFAULT_GRACE = 10.0


@dataclass(frozen=True)
class CheckpointSettings:
    """``keep``: how many of each trial, the latest; ``max_bytes`` of one; ``bytes_per_second`` None: no limit.

    ``grace``: seconds a trial has to save one and end; ``signal``: what asks it to, one of contract.FREEZE_SIGNALS.
    """

    keep: int
    keep_best: bool
    max_bytes: int
    bytes_per_second: int | None
    grace: float
    signal: str


def checkpoints_of(experiment: Experiment) -> CheckpointSettings | None:
    """None where it wants none. Reads ``config``."""
    config = experiment.config
    asked = config.get("checkpoints")
    if asked is False:
        return None
    document = CheckpointsDocument.model_validate(asked if isinstance(asked, Mapping) else {})
    grace = config.get("checkpointGrace")
    return CheckpointSettings(
        document.keep, document.keep_best, document.max_size * 2**20,
        None if document.rate is None else document.rate * 2**20,
        DEFAULT_GRACE if grace is None else parse_duration(grace), config.get("checkpointSignal") or "TERM")


def can_send_checkpoints(platform: type[TrainingService], settings: ClusterSettings | None, options: TrialOptions,
                         has_address: bool) -> bool:
    """Whether keepers on the platform call this server. ``settings`` of the cluster, None: not known; ``has_address``:
    whether an address is known at which other machines reach this server.
    """
    if not platform.keepers_report or not options.keepers_may_call():
        return False
    if hasattr(options, "channel") and not has_address:
        return False  # then the platform collects what keepers write
    return settings is None or settings.keepers_call_home() or not platform.needs_public_url

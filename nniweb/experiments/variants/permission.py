"""What an experiment permits its trials to have instead of its code."""

from __future__ import annotations

from typing import Any

from nniweb.experiments.models import Experiment
from nniweb.experiments.variants.changes import Permission
from nniweb.experiments.variants.paths import PermittedPaths


def permission_of(experiment: Experiment) -> Permission | None:
    """None: nothing."""
    asked: dict[str, Any] | None = experiment.config.get("codeVariants")
    return None if not asked else Permission(PermittedPaths(asked["paths"]), asked["maxBytes"])

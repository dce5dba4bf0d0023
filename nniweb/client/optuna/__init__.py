"""Optuna's studies and experiments of a server. docs/optuna-and-hydra.md is the guide.

    from nniweb.client.optuna import run_study, study_of

``run_study`` has a study choose the parameters of an experiment; ``study_of`` writes any experiment as a study.
Needs ``optuna``, and ``lark`` for search spaces.
"""

from __future__ import annotations

from nniweb.client.optuna.study_export import study_of
from nniweb.client.optuna.study_run import run_study

__all__ = ["run_study", "study_of"]

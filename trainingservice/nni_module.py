"""The ``nni`` module of trials, for platforms that start trials without a keeper."""

from trialkeeper.nni_for_trials import folder_for_trials

__all__ = ["folder_for_trials"]

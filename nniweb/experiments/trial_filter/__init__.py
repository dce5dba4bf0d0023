"""Filters in words: ``status = FAILED and lr < 0.01``. ``language`` reads them, ``conditions`` asks the database."""

from nniweb.experiments.trial_filter.language import FilterInvalid
from nniweb.experiments.trial_filter.query import fitting_trials

__all__ = ["FilterInvalid", "fitting_trials"]

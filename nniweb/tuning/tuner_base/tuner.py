"""What a tuner is: it proposes parameters and is told how they did."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nniweb.tuning.search_space.space import Parameters, SearchSpace


class NoMoreParameters(Exception):
    """The tuner has nothing left to propose: every point of the space that the constraints allow was tried. Not an
    error.
    """


class ResultsNeeded(Exception):
    """The tuner has nothing to propose until a running trial ends. Not an error: it is asked again."""


class Tuner(ABC):
    """Proposes parameters for one experiment.

    Called by one thread at a time. A tuner keeps all its state in memory and is a pure function of what it was told:
    after ``restore`` with the recorded events it proposes exactly what it would have proposed without the interruption.
    Therefore each proposal takes its randomness from ``rng(number)`` and from nothing else. Whatever a tuner raises
    breaks its own experiment only.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self.space = space
        self.seed = seed

    def ask(self, number: int) -> Parameters:
        """Propose parameters. ``number`` counts the proposals of the experiment from 0 and names this one in ``tell``.

        Raises NoMoreParameters and ResultsNeeded.
        """
        parameters = self.propose(number)
        self.note_asked(number, parameters)
        return parameters

    def ask_for_trial(self, number: int, trial: str) -> Parameters:
        """One more parameter set for a running trial (its id), in a multi-phase experiment; numbered as in ``ask``.

        Raises NoMoreParameters, also where it would have to wait for results: the trial waits, and its own results may
        be what is missing. An advisor of the user's own may raise ResultsNeeded; it is asked again.
        """
        try:
            return self.ask(number)
        except ResultsNeeded as error:
            raise NoMoreParameters(str(error)) from error

    @abstractmethod
    def propose(self, number: int) -> Parameters:
        """The parameters for ``ask``, without remembering them. Raises NoMoreParameters and ResultsNeeded."""

    @abstractmethod
    def note_asked(self, number: int, parameters: Parameters) -> None:
        """Remember a proposal, made just now or recorded before a restart, as running until it is told."""

    @abstractmethod
    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        """How a trial ended.

        ``value`` is its final number, None when it was stopped, gave no finite number, or failed (unless the
        experiment's ``failedTrials`` says what a failure is worth). ``status`` is the
        trial's status (``SUCCEEDED``, ``FAILED`` ...). ``number`` is None for parameters that a person picked. A second
        tell for one number only counts where the first had no value. ``violation``: how far its result is from
        satisfying the constraints on outcomes; 0 where it does, or there are none. Feasible results go first: a tuner
        takes every result that violates them for worse than all that do not.
        """

    def continues(self, number: int) -> int | None:
        """Of a proposal that was asked for: the number of the earlier one whose trial it goes on with, so that a trial
        which saved a checkpoint is not begun anew; None where it goes on with none.
        """
        return None

    def chosen(self) -> dict[str, Any] | None:
        """Of a tuner that chooses among others the one that proposes now and why, as ``{"tuner": its name, "reason":
        {"code", ...}}``; None of all others.
        """
        return None

    def agreements(self) -> Sequence[Any]:
        """How each earlier experiment that the search started from agrees with this one, as ``Agreement``, in their
        order; empty where it started from none.
        """
        return ()

    def is_gaussian_process(self) -> bool:
        """Whether its next proposal follows from a Gaussian process of the results."""
        return False

    def allow_repeats(self) -> None:
        """Called first in a multi-phase experiment: a running trial that asks for one more parameter set is given one
        that was tried before rather than none, as by the tuners of NNI 1. Lists and grids end all the same.
        """

    def expect(self, count: int) -> None:
        """So many proposals are asked for next. Only algorithms of the user's own want to know."""

    def note_ask_event(self, event: Mapping[str, Any]) -> None:
        """The same as ``note_asked``, from an event as it is recorded: with ``trial`` (its id) where a running trial
        asked for it, with ``continues`` where it goes on with an earlier one. The first event of a question has
        ``asked``: for how many proposals an algorithm of the user's own was asked then.
        """
        self.note_asked(event["number"], event["parameters"])

    def tell_event(self, event: Mapping[str, Any]) -> None:
        """The same as ``tell``, from an event as it is recorded. One of an algorithm of the user's own has more:
        ``trial`` (its id), ``result`` (what it reported, JSON text) and ``customized`` where a person ran it. One of a
        parameter set in a multi-phase trial that is not the trial's end has ``phase``, the set's index. Of results from
        elsewhere all but the last one that were brought together have ``more``. One whose result violates constraints
        on outcomes has ``violation``.
        """
        self.tell(event["number"], event["parameters"], event["value"], event["status"], event.get("violation", 0.0))

    def update_search_space(self, space: SearchSpace) -> None:
        """Propose from this space from now on; what was told stays known as far as it fits."""
        self.space = space

    def restore(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Replay recorded events, oldest first, each as one of

        ``{"event": "ask", "number", "parameters"}``, ``{"event": "tell", "number", "parameters", "value", "status"}``,
        ``{"event": "search_space", "search_space": SearchSpace}``.
        """
        for event in events:
            if event["event"] == "ask":
                self.note_ask_event(event)
            elif event["event"] == "tell":
                self.tell_event(event)
            elif event["event"] == "search_space":
                self.update_search_space(event["search_space"])

    def replay(self) -> contextlib.AbstractContextManager[None]:
        """Entered around ``restore``, and around whatever else of the record is told again."""
        return contextlib.nullcontext()

    def on_exit(self) -> None:
        """All that is to be told has been told. Only algorithms of the user's own do something then."""

    def on_error(self) -> None:
        """The tuner has raised and is used no more. Only algorithms of the user's own do something then."""

    def rng(self, number: int) -> np.random.Generator:
        """The randomness of proposal ``number``: the same at each call, independent between numbers and seeds."""
        return np.random.default_rng(np.random.SeedSequence([self.seed, number]))

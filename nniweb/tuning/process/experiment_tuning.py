"""One experiment's tuner and assessor, as the tuner process hosts them."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nniweb.tuning.algorithms import build_assessor, build_tuner, find_tuner, start_from_problem, start_points_problem
from nniweb.tuning.assessors.assessment import Assessment
from nniweb.tuning.assessors.assessor import Assessor
from nniweb.tuning.search_space.problem import InvalidInput, Problem
from nniweb.tuning.search_space.space import NothingAllowed, SearchSpace
from nniweb.tuning.search_space.uninterpreted_space import read_space
from nniweb.tuning.tuner_base.advisor import Advisor
from nniweb.tuning.tuner_base.pareto_front import losses_of
from nniweb.tuning.tuner_base.tuner import NoMoreParameters, ResultsNeeded, Tuner

if TYPE_CHECKING:  # when running, loaded for experiments that need it
    from nniweb.tuning.guidance.earlier_objectives import EarlierObjectivesSearch
    from nniweb.tuning.guidance.earlier_search import EarlierSearch

Message = Mapping[str, Any]


class AssessorFailed(Exception):
    """The assessor, and not the tuner, has raised this exception's cause."""


class ExperimentTuning:
    """Built from ``{"search_space", "tuner": {"name", "class_args"}, "assessor": the same or None, "optimize_mode",
    "objective_modes" (where there are several), "constraints" (texts, where there are any), "start_points" (parameter
    sets, where there are any), "earlier" (of each earlier experiment its results as [parameters, value], where there
    are any; the value is a list where there are several objectives), "seed", "multi_phase" and "replicates" (where it
    is so)}``; an algorithm of the user's own has ``class_name`` and ``code_directory`` instead of ``name``. Raises
    InvalidInput where one of them cannot be used, and whatever a tuner raises; of an assessor as the cause of an
    AssessorFailed. An advisor of the user's own judges running trials itself: with one, an assessor is not asked, as in
    NNI.
    """

    def __init__(self, spec: Message) -> None:
        tuner, assessor, mode = spec["tuner"], spec.get("assessor"), spec["optimize_mode"]
        self._is_own = bool(tuner.get("class_name"))
        self._constraints: Sequence[str] = spec.get("constraints", ())
        self._tuner = _tuner(spec, self._read_space(spec["search_space"]))
        if spec.get("multi_phase"):
            self._tuner.allow_repeats()
        # Proposals that were not told yet, by number.
        self._proposed: dict[int, dict[str, Any]] = {}
        self._advisor = self._tuner if isinstance(self._tuner, Advisor) else None
        if self._advisor is not None and spec.get("replicates"):
            raise InvalidInput([Problem("tuner", "an advisor hears of each trial by itself, so it cannot be used with "
                                                 "replicates; use a tuner class, or remove replicates")])
        self._assessment: Assessment | None = None
        if assessor is not None and self._advisor is None:
            with _assessor_at_work():
                self._assessment = Assessment(_assessor(assessor, mode, spec["seed"]))

    def restore(self, history: Iterable[Message]) -> dict[str, Any]:
        """Replay what was recorded, oldest first. Returns the running trials that the assessor wants stopped: whether
        that was carried out before the interruption is not known here.
        """
        with self._tuner.replay(), self._assessment.replay() if self._assessment else contextlib.nullcontext():
            if self._advisor is not None:
                return self._restore_advisor(history)
            self._tuner.restore(self._assess_and_pass_on(history))
        return {"stop": self._assessment.stopped() if self._assessment is not None else []}

    def ask(self, first_number: int, count: int) -> dict[str, Any]:
        """Up to ``count`` proposals; fewer when the tuner needs results first, and ``exhausted`` when there is
        nothing left. A tuner that chooses among others says which one proposes now (``chosen``). ``continues``: for
        each proposal the number of the one whose trial it goes on with, or None; only where there are any.

        A number asked for again gets the same proposal again: an answer that was never used (the experiment was paused
        meanwhile) is not lost, and the tuner does not believe in a trial that never ran.
        """
        parameters: list[dict[str, Any]] = []
        self._tuner.expect(sum(number not in self._proposed for number in range(first_number, first_number + count)))
        try:
            for number in range(first_number, first_number + count):
                if number not in self._proposed:
                    self._proposed[number] = self._tuner.ask(number)
                parameters.append(self._proposed[number])
        except (NoMoreParameters, NothingAllowed):
            return {"parameters": parameters, "exhausted": True, **self._continued(first_number, len(parameters)),
                    **self._told_beside()}
        except ResultsNeeded:
            pass  # it is asked again after the next end
        return {"parameters": parameters, "exhausted": False, **self._continued(first_number, len(parameters)),
                **self._told_beside()}

    def ask_for_trials(self, first_number: int, trials: Sequence[str]) -> dict[str, Any]:
        """One more parameter set for each of these running trials: ``{"given": [{"trial", "parameters"}]}``, numbered
        in this order, those with parameters None left out: there is nothing left for them. A trial that is not among
        them is to be asked for again.
        """
        given: list[dict[str, Any]] = []
        number = first_number
        for trial in trials:
            try:
                parameters: dict[str, Any] | None = self._tuner.ask_for_trial(number, trial)
                number += 1
            except (NoMoreParameters, NothingAllowed):
                parameters = None
            except ResultsNeeded:
                continue
            given.append({"trial": trial, "parameters": parameters})
        return {"given": given, **self._chosen(), **self._unwanted()}

    def tell(self, **event: Any) -> dict[str, Any]:
        """An end, as it is recorded."""
        self._tuner.tell_event(event)
        if event["number"] is not None:
            self._proposed.pop(event["number"], None)
        return self._unwanted()

    def update_search_space(self, search_space: object) -> dict[str, Any]:
        self._tuner.update_search_space(self._read_space(search_space))
        return self._unwanted()

    def intermediate(self, reports: list[Message]) -> dict[str, Any]:
        if self._advisor is not None:
            self._advisor.intermediate(reports)
            return self._unwanted()
        with _assessor_at_work():
            return {"stop": self._assessment.intermediate(reports) if self._assessment is not None else []}

    def trial_end(self, trial: str, succeeded: bool) -> dict[str, Any]:
        if self._assessment is not None:
            with _assessor_at_work():
                self._assessment.trial_end(trial, succeeded)
        return {}

    def exit(self) -> dict[str, Any]:
        """The experiment is over: algorithms of the user's own may put things in order (``_on_exit``)."""
        try:
            self._tuner.on_exit()
        finally:
            if self._assessment is not None:
                self._assessment.on_exit()
        return {}

    def note_error(self) -> None:
        """One of its algorithms has raised, so none of them is used any more (``_on_error``)."""
        try:
            self._tuner.on_error()
        finally:
            if self._assessment is not None:
                self._assessment.on_error()

    def _read_space(self, raw: object) -> SearchSpace:
        return read_space(raw, is_uninterpreted=self._is_own, constraints=self._constraints)

    def _continued(self, first_number: int, count: int) -> dict[str, Any]:
        found = [self._tuner.continues(number) for number in range(first_number, first_number + count)]
        return {"continues": found} if any(number is not None for number in found) else {}

    def _told_beside(self) -> dict[str, Any]:
        """What an answer has beside its proposals."""
        return {**self._chosen(), **self._agreements(), **self._unwanted()}

    def _chosen(self) -> dict[str, Any]:
        """By which tuner it proposes now, of one that chooses among others."""
        chosen = self._tuner.chosen()
        return {"chosen": chosen} if chosen is not None else {}

    def _agreements(self) -> dict[str, Any]:
        """How earlier experiments agree with this one, by their place; only where it started from any."""
        found = self._tuner.agreements()
        return {"agreements": [asdict(one) for one in found]} if found else {}

    def _unwanted(self) -> dict[str, Any]:
        """The trials that an advisor wants stopped."""
        unwanted = self._advisor.take_unwanted() if self._advisor is not None else []
        return {"stop": unwanted} if unwanted else {}

    def _restore_advisor(self, history: Iterable[Message]) -> dict[str, Any]:
        """The record has the intermediate results after everything else: each goes before the end of its trial."""
        reports: dict[Any, list[Message]] = {}
        events = []
        for event in history:
            if event["event"] == "intermediate":
                reports.setdefault(event["number"], []).append(event)
            elif event["event"] != "trial_end":
                events.append(event)
        assert self._advisor is not None
        for event in events:
            if event["event"] == "tell":
                self._advisor.intermediate(reports.pop(event["number"], []))
            self._advisor.restore(self._assess_and_pass_on([event]))
        for running in reports.values():
            self._advisor.intermediate(running)
        return {"stop": [], **self._unwanted()}

    def _assess_and_pass_on(self, history: Iterable[Message]) -> Iterator[Message]:
        """The tuner's part of the history; the assessor's part is replayed on the way."""
        for event in history:
            if event["event"] == "intermediate":
                self.intermediate(event.get("reports", [event]))
            elif event["event"] == "trial_end":
                self.trial_end(event["trial"], event["succeeded"])
            elif event["event"] == "search_space":
                yield {**event, "search_space": self._read_space(event["search_space"])}
            else:
                yield event


@contextlib.contextmanager
def _assessor_at_work() -> Iterator[None]:
    try:
        yield
    except BaseException as error:  # an algorithm may also call sys.exit
        raise AssessorFailed from error


def _tuner(spec: Message, space: SearchSpace) -> Tuner:
    document, seed = spec["tuner"], spec["seed"]
    if not document.get("class_name"):
        built = build_tuner(document["name"], document.get("class_args"), space, spec["optimize_mode"], seed,
                            spec.get("objective_modes", ()))
        return _guided(built, spec)
    # not at the top: the base classes are loaded only in the process of such an algorithm
    from nniweb.tuning.custom_algorithms.own_tuner import make_own_tuner

    return make_own_tuner(space, seed, document, bool(spec.get("multi_phase")))


def _guided(tuner: Tuner, spec: Message) -> Tuner:
    """With the points that are to be tried first and the earlier results, where there are any and the tuner (another
    one may have been chosen since the launch) takes them.
    """
    algorithm = find_tuner(spec["tuner"]["name"])
    points = () if start_points_problem(algorithm) else spec.get("start_points", ())
    results = () if start_from_problem(algorithm) else spec.get("earlier", ())
    if not points and not results:
        return tuner
    from nniweb.tuning.guidance.guided_tuner import GuidedTuner

    return GuidedTuner(tuner, points, _earlier(tuner, spec, results) if results else None,
                       is_list=algorithm.takes_a_list)


def _earlier(tuner: Tuner, spec: Message, results: Sequence[Any]) -> "EarlierSearch | EarlierObjectivesSearch":
    from nniweb.tuning.guidance.earlier_objectives import EarlierObjectivesSearch, EarlierPoint
    from nniweb.tuning.guidance.earlier_search import EarlierResult, EarlierSearch

    modes = spec.get("objective_modes", ())
    if len(modes) > 1:
        return EarlierObjectivesSearch(tuner.space, tuner.seed, modes, [
            [EarlierPoint(parameters, losses_of(values, modes)) for parameters, values in of_one]
            for of_one in results])
    sign = -1.0 if spec["optimize_mode"] == "maximize" else 1.0
    return EarlierSearch(tuner.space, tuner.seed, spec["optimize_mode"], [
        [EarlierResult(parameters, sign * value) for parameters, value in of_one] for of_one in results],
        by_process=tuner.is_gaussian_process)


def _assessor(document: Message, mode: str, seed: int) -> Assessor:
    if not document.get("class_name"):
        return build_assessor(document["name"], document.get("class_args"), mode)
    from nniweb.tuning.custom_algorithms.own_assessor import OwnAssessor

    return OwnAssessor(document, seed)

"""A user's tuner behind our interface."""

import contextlib
import copy
from collections.abc import Mapping
from typing import Any

from nniweb.tuning.custom_algorithms.loading import load_own, make_own
from nniweb.tuning.custom_algorithms.nni import NoMoreTrialError
from nniweb.tuning.custom_algorithms.nni.common import enable_multi_phase
from nniweb.tuning.custom_algorithms.nni.msg_dispatcher_base import MsgDispatcherBase
from nniweb.tuning.custom_algorithms.own_advisor import OwnAdvisor
from nniweb.tuning.custom_algorithms.parameter_requests import one_set_only, takes_trial_job_id
from nniweb.tuning.custom_algorithms.reported_result import reported
from nniweb.tuning.search_space.problem import InvalidInput, Problem
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.tuner import NoMoreParameters, ResultsNeeded, Tuner


def make_own_tuner(space: SearchSpace, seed: int, document: Mapping[str, Any], multi_phase: bool = False) -> Tuner:
    """The user's tuner or advisor. Raises InvalidInput, and what the class raises."""
    found = load_own("tuner", document, ["generate_parameters", "handle_request_trial_jobs"])
    if multi_phase:
        enable_multi_phase()
        if not takes_trial_job_id(found):
            raise InvalidInput([Problem("className", one_set_only(str(document["class_name"])))])
    if isinstance(found, type) and issubclass(found, MsgDispatcherBase):
        return OwnAdvisor(space, seed, document, found)
    return OwnTuner(space, seed, document, found)


class OwnTuner(Tuner):
    """Calls the methods of NNI's ``Tuner`` with what NNI would give them. After a restart the recorded history is
    played to a new object: it is asked for each proposal again, and told the parameters that the trial really had. So
    one whose choices follow from its arguments, its results and Python's or numpy's global generator goes on as if
    nothing had happened.
    """

    def __init__(self, space: SearchSpace, seed: int, document: Mapping[str, Any], tuner_class: Any) -> None:
        super().__init__(space, seed)
        self._own = make_own(tuner_class, document, seed)
        self._own.update_search_space(space.to_json())
        self._running: set[int] = set()
        self._valued: set[int] = set()

    def ask(self, number: int) -> Parameters:
        parameters = self.propose(number)
        self._running.add(number)
        return parameters

    def propose(self, number: int) -> Parameters:
        try:
            [parameters] = self._own.generate_multiple_parameters([number]) or [None]
        except NoMoreTrialError:
            parameters = None
        if parameters is None:
            if self._running:
                raise ResultsNeeded("the tuner waits for results")
            raise NoMoreParameters("the tuner has nothing more to propose")
        return copy.deepcopy(dict(parameters))

    def ask_for_trial(self, number: int, trial: str) -> Parameters:
        try:
            parameters = self._own.generate_parameters(number, trial_job_id=trial)
        except NoMoreTrialError as error:
            raise NoMoreParameters("the tuner has nothing more to propose") from error
        if parameters is None:
            raise NoMoreParameters("the tuner has nothing more to propose")
        self._running.add(number)
        return copy.deepcopy(dict(parameters))

    def note_ask_event(self, event: Mapping[str, Any]) -> None:
        if event.get("trial") is None:
            super().note_ask_event(event)
            return
        with contextlib.suppress(NoMoreTrialError):
            self._own.generate_parameters(event["number"], trial_job_id=event["trial"])
        self._running.add(event["number"])

    def note_asked(self, number: int, parameters: Parameters) -> None:
        with contextlib.suppress(NoMoreTrialError):  # it answered otherwise before; the record is what counts
            self._own.generate_multiple_parameters([number])
        self._running.add(number)

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str) -> None:
        self.tell_event({"number": number, "parameters": parameters, "value": value, "status": status})

    def tell_event(self, event: Mapping[str, Any]) -> None:
        number, parameters, value = event["number"], event["parameters"], _result(event)
        more = {"trial_job_id": event["trial"]} if event.get("trial") else {}
        if number is None and event.get("customized"):
            if value is not None and getattr(self._own, "_accept_customized", False):
                self._own.receive_trial_result(None, parameters, value, customized=True, **more)
        elif number is None:
            if value is not None:  # a result of an earlier life
                self._own.import_data([{"parameter": parameters, "value": value}])
        else:
            if value is not None and number not in self._valued:
                self._valued.add(number)
                self._own.receive_trial_result(number, parameters, value, customized=False, **more)
            phase = event.get("phase")
            if phase is not None:  # of one parameter set; the trial's own end is told of its first one
                if phase > 0:
                    self._running.discard(number)
            elif number in self._running:
                self._running.discard(number)
                self._own.trial_end(number, event["status"] == "SUCCEEDED", **more)

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._own.update_search_space(space.to_json())


def _result(event: Mapping[str, Any]) -> Any:
    """What the trial reported, objects whole; None where that is no result."""
    return event["value"] if event.get("result") is None else reported(event["result"])

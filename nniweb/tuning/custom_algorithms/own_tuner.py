"""A user's tuner behind our interface."""

import collections
import contextlib
import heapq
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from nniweb.tuning.custom_algorithms.calls import Calls
from nniweb.tuning.custom_algorithms.loading import call_if_there, load_tuner, make_own
from nniweb.tuning.custom_algorithms.nni import NoMoreTrialError
from nniweb.tuning.custom_algorithms.nni.common import enable_multi_phase
from nniweb.tuning.custom_algorithms.nni.msg_dispatcher_base import MsgDispatcherBase
from nniweb.tuning.custom_algorithms.own_advisor import OwnAdvisor
from nniweb.tuning.custom_algorithms.parameter_requests import one_set_only, takes_trial_job_id
from nniweb.tuning.custom_algorithms.plain_parameters import plain_parameters
from nniweb.tuning.custom_algorithms.reported_result import ImportedResults, is_imported, result_of
from nniweb.tuning.custom_algorithms.taken_arguments import taken
from nniweb.tuning.search_space.problem import InvalidInput, Problem
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.tuner import NoMoreParameters, ResultsNeeded, Tuner


def make_own_tuner(space: SearchSpace, seed: int, document: Mapping[str, Any], multi_phase: bool = False) -> Tuner:
    """The user's tuner or advisor. Raises InvalidInput, and what the class raises."""
    found = load_tuner(document)
    if multi_phase:
        enable_multi_phase()
        if not takes_trial_job_id(found):
            raise InvalidInput([Problem("className", one_set_only(str(document["class_name"])))])
    if isinstance(found, type) and issubclass(found, MsgDispatcherBase):
        return OwnAdvisor(space, seed, document, found)
    return OwnTuner(space, seed, document, found)


class _Callback:
    """NNI's ``st_callback``: a tuner that had no parameters when it was asked hands them in later."""

    def __init__(self, take: Callable[[int, Mapping[str, Any]], None]) -> None:
        self._take = take

    def __call__(self, parameter_id: int, parameters: Mapping[str, Any]) -> None:
        self._take(parameter_id, parameters)


class OwnTuner(Tuner):
    """Calls the methods of NNI's ``Tuner`` with what NNI would give them. After a restart the recorded history is
    played to a new object: it is asked for each proposal again, and told the parameters that the trial really had. So
    one whose choices follow from its arguments, its results and Python's or numpy's global generator goes on as if
    nothing had happened.

    A parameter id that it was asked for stays open while its call blocks in a thread (``multiThread``), or when it
    returned nothing and has kept the callback: it is not asked for the same slot again. An id that it returned nothing
    for otherwise is asked for again.
    """

    def __init__(self, space: SearchSpace, seed: int, document: Mapping[str, Any], tuner_class: Any) -> None:
        super().__init__(space, seed)
        self._calls = Calls(bool(document.get("multi_thread")))
        self._own = make_own(tuner_class, document, seed)
        self._own.update_search_space(space.to_json())
        #: Guards the next six: the user's threads may hand in parameters.
        self._lock = threading.Lock()
        #: Parameter ids and parameters that it has made and nobody has got yet.
        self._made: collections.deque[tuple[int, Parameters]] = collections.deque()
        self._open: set[int] = set()
        #: Ids that it was asked for without effect.
        self._unused: list[int] = []
        self._next_id = 0
        #: Running trials for which further parameters were asked for -> id and parameters (None: there are no more);
        #: None while the call is under way.
        self._further: dict[str, tuple[int, Parameters | None] | None] = {}
        #: Ids whose parameters are known from the record: what it makes for them later is not used.
        self._replayed: set[int] = set()
        #: Number of a proposal -> parameter id, of trials that have not ended.
        self._running: dict[int, int] = {}
        #: The same of all trials, where the two differ.
        self._ids: dict[int, int] = {}
        self._valued: set[int] = set()
        self._imports = ImportedResults()

    def replay(self) -> contextlib.AbstractContextManager[None]:
        return self._calls.of_replay()

    def expect(self, count: int) -> None:
        self._calls.raise_failure()
        if not self._calls.in_threads:
            self._request(count - len(self._made) - len(self._open))
            return
        while count > len(self._made) + len(self._open):  # one by one, as in NNI: each may block
            [parameter_id] = self._request(1)
            if parameter_id in self._unused:
                break

    def ask(self, number: int) -> Parameters:
        parameters = self.propose(number)
        self._runs(number, self._made.popleft()[0])
        return parameters

    def propose(self, number: int) -> Parameters:
        if self._made:
            return self._made[0][1]
        if self._running or self._open or self._calls.are_under_way:
            raise ResultsNeeded("the tuner waits for results")
        raise NoMoreParameters("the tuner has nothing more to propose")

    def ask_for_trial(self, number: int, trial: str) -> Parameters:
        self._calls.raise_failure()
        if trial not in self._further:
            self._request_further(trial)
        with self._lock:
            made = self._further[trial]
            if made is None:
                raise ResultsNeeded("the tuner has not answered yet")
            del self._further[trial]
        parameter_id, parameters = made
        if parameters is None:
            raise NoMoreParameters("the tuner has nothing more to propose")
        self._runs(number, parameter_id)
        return parameters

    def note_ask_event(self, event: Mapping[str, Any]) -> None:
        trial = event.get("trial")
        if trial is None:
            self.expect(event.get("asked", 0))
            super().note_ask_event(event)
            return
        parameter_id = self._request_further(trial)
        with self._lock:
            made = self._further.pop(trial)
            if made is not None and made[1] is None:  # it answered then; the record is what counts
                parameter_id = self._new_id()
        self._runs(event["number"], parameter_id)

    def note_asked(self, number: int, parameters: Parameters) -> None:
        """It is asked again; where it answers otherwise than it did, the record is what counts."""
        if not self._made and not self._open:
            self._request(1)
        with self._lock:
            if self._made:
                parameter_id = self._made.popleft()[0]
            elif self._open:
                parameter_id = min(self._open)
                self._open.discard(parameter_id)
                self._replayed.add(parameter_id)
            else:
                parameter_id = self._new_id()
        self._runs(number, parameter_id)

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        self.tell_event({"number": number, "parameters": parameters, "value": value, "status": status})

    def tell_event(self, event: Mapping[str, Any]) -> None:
        number = event["number"]
        if is_imported(event):
            if results := self._imports.take(event):
                self._calls.make(lambda: self._own.import_data(results))
            return
        phase = event.get("phase")  # of one parameter set; the trial's own end is told of its first one
        is_running = phase != 0 and number is not None and self._running.pop(number, None) is not None
        if phase is None:
            with self._lock:
                self._further.pop(str(event.get("trial")), None)
        self._calls.make(lambda: self._tell(event, is_running and phase is None))

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._own.update_search_space(space.to_json())

    def on_exit(self) -> None:
        self._calls.wait_for_the_end()
        call_if_there(self._own, "_on_exit")

    def on_error(self) -> None:
        call_if_there(self._own, "_on_error")

    def _runs(self, number: int, parameter_id: int) -> None:
        self._running[number] = parameter_id
        if number != parameter_id:
            self._ids[number] = parameter_id

    def _new_id(self) -> int:
        """To be called with the lock held."""
        if self._unused:
            return heapq.heappop(self._unused)
        self._next_id += 1
        return self._next_id - 1

    def _request(self, count: int) -> list[int]:
        """Ask for so many parameter sets in one call; the ids that they were asked for."""
        if count <= 0:
            return []
        with self._lock:
            ids = [self._new_id() for _ in range(count)]
            self._open.update(ids)
        self._calls.make(lambda: self._generate(ids), is_awaited_at_the_end=False)
        return ids

    def _generate(self, ids: list[int]) -> None:
        callback = _Callback(self._take)
        kept = weakref.ref(callback)
        found: list[Mapping[str, Any] | None] = []
        with contextlib.suppress(NoMoreTrialError):
            generate = self._own.generate_multiple_parameters
            found = list(generate(list(ids), **taken(generate, {"st_callback": callback})) or [])
        del callback
        if len(found) > len(ids):
            raise ValueError(f"generate_multiple_parameters returned {len(found)} parameter sets for {len(ids)} ids")
        for parameter_id, parameters in zip(ids, found, strict=False):  # fewer: there are no more at the moment
            if parameters is not None:
                self._take(parameter_id, parameters)
        if kept() is None:
            with self._lock:
                for parameter_id in self._open.intersection(ids):  # not handed in during the call
                    self._open.discard(parameter_id)
                    heapq.heappush(self._unused, parameter_id)

    def _request_further(self, trial: str) -> int:
        """Ask for one more parameter set for a running trial; the id that it was asked for."""
        with self._lock:
            parameter_id = self._new_id()
            self._further[trial] = None
        self._calls.make(lambda: self._generate_further(parameter_id, trial), is_awaited_at_the_end=False)
        return parameter_id

    def _generate_further(self, parameter_id: int, trial: str) -> None:
        parameters = None
        with contextlib.suppress(NoMoreTrialError):
            parameters = self._own.generate_parameters(parameter_id, trial_job_id=trial)
        made = None if parameters is None else plain_parameters(parameters)
        with self._lock:
            if made is None:
                heapq.heappush(self._unused, parameter_id)
            if trial in self._further:  # else the trial has ended, or the record knows what it was given
                self._further[trial] = (parameter_id, made)

    def _take(self, parameter_id: int, parameters: Mapping[str, Any]) -> None:
        """Parameters that it has made. Any thread."""
        made = plain_parameters(parameters)
        with self._lock:
            self._open.discard(parameter_id)
            if parameter_id in self._replayed:
                self._replayed.discard(parameter_id)
            else:
                self._made.append((parameter_id, made))

    def _tell(self, event: Mapping[str, Any], is_running: bool) -> None:
        number, parameters, value = event["number"], event["parameters"], result_of(event)
        more = {"trial_job_id": event["trial"]} if event.get("trial") else {}
        if number is None:
            if value is not None and getattr(self._own, "_accept_customized", False):
                self._receive(None, parameters, value, {"customized": True, **more})
        else:
            parameter_id = self._ids.get(number, number)
            if value is not None and number not in self._valued:
                self._valued.add(number)
                self._receive(parameter_id, parameters, value, {"customized": False, **more})
            if is_running:
                trial_end = self._own.trial_end
                trial_end(parameter_id, event["status"] == "SUCCEEDED", **taken(trial_end, more))

    def _receive(self, parameter_id: int | None, parameters: Parameters, value: Any, more: Mapping[str, Any]) -> None:
        receive = self._own.receive_trial_result
        receive(parameter_id, parameters, value, **taken(receive, more))

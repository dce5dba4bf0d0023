"""A user's advisor (a subclass of NNI's ``MsgDispatcherBase``) behind our interface."""

import collections
import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from nniweb.tuning.custom_algorithms.calls import Calls
from nniweb.tuning.custom_algorithms.loading import call_if_there, make_own
from nniweb.tuning.custom_algorithms.nni.common import dump, load, multi_phase_enabled
from nniweb.tuning.custom_algorithms.nni.protocol import CommandType, take_said
from nniweb.tuning.custom_algorithms.nni.utils import MetricType
from nniweb.tuning.custom_algorithms.plain_parameters import plain_parameters
from nniweb.tuning.custom_algorithms.reported_result import ImportedResults, is_imported, reported
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.advisor import Advisor
from nniweb.tuning.tuner_base.tuner import NoMoreParameters, ResultsNeeded


class AdvisorFailed(Exception):
    """The advisor said that it cannot go on, or said something that is no message."""


class OwnAdvisor(Advisor):
    """Passes on what NNI's manager would tell it, and acts on what it says. One object in a process.

    A request that was not met yet stays open, as in NNI: the advisor may meet it at any later time, and is not asked
    for the same slot again. Its parameter ids are its own (BOHB's are texts); outside of here a proposal has a number.
    """

    def __init__(self, space: SearchSpace, seed: int, document: Mapping[str, Any], advisor_class: Any) -> None:
        super().__init__(space, seed)
        take_said()  # of an advisor that was replaced
        self._calls = Calls(bool(document.get("multi_thread")))
        self._own = make_own(advisor_class, document, seed)
        #: Trials it has sent that nobody has got yet.
        self._ready: collections.deque[dict[str, Any]] = collections.deque()
        #: Trials that were requested and not sent.
        self._owed = 0
        self._has_no_more = False
        #: Running trials that were said to want further parameters -> what it sent for them, None before it did.
        self._requests: dict[str, dict[str, Any] | None] = {}
        self._index_of_request: dict[str, int] = {}
        #: Number -> what it sent, of trials that have not ended.
        self._running: dict[int, dict[str, Any]] = {}
        self._valued: set[int] = set()
        self._unwanted: list[str] = []
        self._imports = ImportedResults()
        with self.replay():
            self._say(CommandType.Initialize, space.to_json())

    def replay(self) -> contextlib.AbstractContextManager[None]:
        return self._calls.of_replay()

    def expect(self, count: int) -> None:
        self._listen()  # a thread of its own may have said something
        missing = count - len(self._ready) - self._owed
        if missing <= 0:
            return
        self._owed += missing
        if self._calls.in_threads:  # one by one, as in NNI: each may block
            for _ in range(missing):
                self._say(CommandType.RequestTrialJobs, 1, is_awaited_at_the_end=False)
        else:
            self._say(CommandType.RequestTrialJobs, missing)

    def ask(self, number: int) -> Parameters:
        parameters = self.propose(number)
        self._running[number] = self._ready.popleft()
        return parameters

    def ask_for_trial(self, number: int, trial: str) -> Parameters:
        if trial not in self._requests:
            self._requests[trial] = None
            self._index_of_request[trial] = self._index_of_request.get(trial, 0) + 1
            self._say(CommandType.ReportMetricData, {
                "type": MetricType.REQUEST_PARAMETER, "trial_job_id": trial, "sequence": 0,
                "parameter_index": self._index_of_request[trial]})
        else:
            self._listen()  # a thread of its own may have said something
        sent = self._requests[trial]
        if sent is None:
            raise ResultsNeeded("the advisor has not answered yet")
        del self._requests[trial]
        if sent["parameters"] is None:
            raise NoMoreParameters("the advisor has nothing more to propose")
        self._running[number] = sent
        return plain_parameters(sent["parameters"])

    def note_ask_event(self, event: Mapping[str, Any]) -> None:
        if event.get("trial") is None:
            self.expect(event.get("asked", 0))
            super().note_ask_event(event)
            return
        with contextlib.suppress(ResultsNeeded, NoMoreParameters):  # it answered before; the record is what counts
            self.ask_for_trial(event["number"], event["trial"])
        sent = self._running.get(event["number"], {"parameter_id": event["number"], "parameter_source": "algorithm"})
        self._requests.pop(event["trial"], None)
        self._running[event["number"]] = {**sent, "parameters": event["parameters"]}

    def propose(self, number: int) -> Parameters:
        if not self._ready:
            self.expect(1)
        if not self._ready:
            if self._has_no_more and not self._running and not self._calls.are_under_way:
                raise NoMoreParameters("the advisor has nothing more to propose")
            raise ResultsNeeded("the advisor waits for results")
        return plain_parameters(self._ready[0]["parameters"])

    def note_asked(self, number: int, parameters: Parameters) -> None:
        """It is asked again; where it answers otherwise than it did, the record is what counts."""
        if not self._ready:
            self.expect(1)
        sent = self._ready.popleft() if self._ready else {"parameter_id": number, "parameter_source": "algorithm"}
        self._running[number] = {**sent, "parameters": parameters}

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        self.tell_event({"number": number, "parameters": parameters, "value": value, "status": status})

    def tell_event(self, event: Mapping[str, Any]) -> None:
        number, value = event["number"], event["value"]
        if is_imported(event):
            if results := self._imports.take(event):
                self._say_if_written(CommandType.ImportData, results)
            return
        if number is None:
            self._say_if_written(CommandType.AddCustomizedTrialJob, {
                "parameter_id": None, "parameter_source": "customized", "parameters": event["parameters"]})
            return
        sent = self._running.get(number)
        if sent is None:
            return
        trial = event.get("trial") or str(number)
        text = event.get("result") or (None if value is None else dump(value))
        if text is not None and _is_result(text) and number not in self._valued:
            self._valued.add(number)
            self._metric(MetricType.FINAL, sent, trial, 0, text)
        phase = event.get("phase")
        if phase is not None:  # of one parameter set; the trial's own end is told of its first one
            if phase > 0:
                del self._running[number]
            return
        del self._running[number]
        self._requests.pop(trial, None)
        self._index_of_request.pop(trial, None)
        self._say(CommandType.TrialEnd, {"trial_job_id": trial, "event": event["status"], "hyper_params": dump(sent)})

    def intermediate(self, reports: Iterable[Mapping[str, Any]]) -> None:
        for report in reports:
            sent = self._running.get(report["number"]) if report.get("number") is not None else None
            if sent is not None and _is_result(report["result"]):
                self._metric(MetricType.PERIODICAL, sent, report["trial"], report["sequence"], report["result"])

    def take_unwanted(self) -> list[str]:
        self._listen()
        unwanted, self._unwanted = self._unwanted, []
        return unwanted

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._say(CommandType.UpdateSearchSpace, space.to_json())

    def on_exit(self) -> None:
        self._calls.wait_for_the_end()
        call_if_there(self._own, "_on_exit")

    def on_error(self) -> None:
        call_if_there(self._own, "_on_error")

    def _metric(self, kind: str, sent: Mapping[str, Any], trial: str, sequence: int, text: str) -> None:
        self._say(CommandType.ReportMetricData, {
            "parameter_id": sent["parameter_id"], "trial_job_id": trial, "type": kind, "sequence": sequence,
            "value": text})

    def _say(self, command: CommandType, data: Any, *, is_awaited_at_the_end: bool = True) -> None:
        told = json.loads(dump(data))  # a copy: it is free to change what it is told
        self._calls.make(lambda: self._own.process_command(command, told), is_awaited_at_the_end=is_awaited_at_the_end)
        self._listen()

    def _say_if_written(self, command: CommandType, data: Any) -> None:
        """For what many advisors do not care about."""
        told = json.loads(dump(data))

        def call() -> None:
            with contextlib.suppress(NotImplementedError):
                self._own.process_command(command, told)

        self._calls.make(call)
        self._listen()

    def _listen(self) -> None:
        self._calls.raise_failure()
        for command, data in take_said():
            if command is CommandType.NewTrialJob:
                self._ready.append(_new_trial(data))
                self._owed = max(0, self._owed - 1)
                self._has_no_more = False
            elif command is CommandType.NoMoreTrialJobs:
                self._has_no_more = True
            elif command is CommandType.KillTrialJob:
                self._unwanted.append(str(load(data)))
            elif command is CommandType.Error:
                raise AdvisorFailed(data)
            elif command is CommandType.SendTrialJobParameter:
                self._take_further(data)
            elif command is not CommandType.Initialized:
                raise AdvisorFailed(f"the advisor sent {command.name}, which only its dispatcher may send")

    def _take_further(self, data: Any) -> None:
        """Parameters for a running trial; of one that did not ask nothing is kept."""
        try:
            found = load(data)
            trial, sent = str(found["trial_job_id"]), found["parameters"]
            if sent is None or sent == "":
                sent = {"parameters": None}
            elif isinstance(sent, dict):
                sent = {"parameter_source": "algorithm", **found}
                sent["parameter_id"]  # noqa: B018  # it must be there
            else:
                raise TypeError
        except (ValueError, TypeError, KeyError):
            raise AdvisorFailed("SendTrialJobParameter must be sent with the JSON text of an object that has "
                                "trial_job_id, parameter_id and parameters (an object, or null where there are no "
                                f"more), not {str(data):.200}") from None
        if trial in self._requests:
            self._requests[trial] = sent
        elif not multi_phase_enabled():
            raise AdvisorFailed("the advisor sent SendTrialJobParameter, which needs multiPhase: true in the "
                                "experiment's file: without it a trial has one set of parameters")


def _new_trial(data: Any) -> dict[str, Any]:
    try:
        found = load(data)
        if isinstance(found["parameters"], dict):
            return {"parameter_source": "algorithm", "parameter_id": found["parameter_id"], **found}
    except (ValueError, TypeError, KeyError):
        found = data
    raise AdvisorFailed("NewTrialJob must be sent with the JSON text of an object that has parameter_id and parameters "
                        f"(an object), not {str(found):.200}")


def _is_result(text: str) -> bool:
    """Whether an advisor can be told: all but NaN, the infinities and null, which NNI's own advisors cannot bear."""
    return reported(text) is not None

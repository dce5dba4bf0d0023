"""Running trials that ask for further parameter sets: what rounds make of their questions and results."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from nniweb.experiments.actions import intents
from nniweb.experiments.ingest import reports
from nniweb.experiments.ingest.one_report import Delivery
from nniweb.experiments.models import Attempt, Experiment, Trial, TrialParameters, TunerEvent
from tests.nniweb.worker.conftest import Rig
from trainingservice.errors import TemporaryError
from trainingservice.receiver.report_reading import read_report
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail

FOUR = {"x": {"_type": "choice", "_value": [1, 2, 3, 4]}}


class Keeper:
    """The keeper of a trial, and the trial: says what the test has it say."""

    def __init__(self, trial: Trial, journal: str = "journal") -> None:
        self.attempt = Attempt.objects.filter(trial=trial).latest("number")
        self.journal, self.n, self.holds = journal, 0, 0
        self.given: dict[int, Any] = {}
        self.say({"type": "started", "pid": 1, "host": "box"})

    def say(self, *entries: dict[str, Any]) -> dict[str, Any]:
        numbered = []
        for entry in entries:
            self.n += 1
            numbered.append({"n": self.n, "at": 0.0, **entry})
        answer = reports.store([Delivery(self.attempt.job_name, None, read_report(
            {"keeper": {"version": 1, "journal_id": self.journal, "parameter_index": self.holds},
             "entries": numbered}), timezone.now())])[0]
        assert answer.status == 200, answer
        for order in answer.body["orders"]:
            if order["order"] == "parameters":
                assert order["index"] not in self.given or self.given[order["index"]] == json.loads(order["text"])
                self.given[order["index"]] = json.loads(order["text"])
                self.holds = max(self.holds, order["index"])
        return answer.body

    def ask(self, index: int) -> None:
        self.say({"type": "metric", "kind": "REQUEST_PARAMETER", "parameter_id": None, "sequence": 0,
                  "value": str(index)})

    def final(self, parameter_id: int | None, value: Any) -> None:
        self.say({"type": "metric", "kind": "FINAL", "parameter_id": parameter_id, "sequence": 0,
                  "value": json.dumps(value)})

    def end(self, exit_code: int = 0) -> None:
        self.say({"type": "ended", "exit_code": exit_code, "signal": None, "reason": "exited", "message": "",
                  "duration": 1.0})

    def next(self, rig: Rig, index: int) -> Any:
        """What the trial's next question is answered with."""
        self.ask(index)
        rig.until(lambda: self.say() and index in self.given)
        return self.given[index]


def events() -> list[tuple[Any, ...]]:
    """The tuner's history, short: what, of which number, and the value or the trial."""
    return [(one["event"], one["number"], one.get("value") if one["event"] == "tell" else one.get("trial"))
            for one in TunerEvent.objects.order_by("number").values_list("data", flat=True)]


def multi_phase(rig: Rig, **fields: Any) -> Experiment:
    return rig.experiment(**{"multi_phase": True, "trial_concurrency": 1, "max_trial_number": 1, "search_space": FOUR,
                             "tuner": {"name": "GridSearch"}, "optimize_mode": "maximize", **fields})


def status_of(experiment: Experiment) -> str:
    experiment.refresh_from_db()
    return experiment.status


def test_each_question_is_answered_with_a_set_of_its_own_and_the_best_result_is_the_trials(make_rig) -> None:
    rig = make_rig()
    experiment = multi_phase(rig)
    [trial] = rig.submitted(experiment, 1)
    keeper = Keeper(trial)
    keeper.final(0, 0.25)
    for index, value in ((1, 0.75), (2, 0.5)):
        given = keeper.next(rig, index)
        assert (given["parameter_id"], given["parameter_index"]) == (index, index)
        keeper.final(given["parameter_id"], value)
    keeper.end()
    rig.until(lambda: status_of(experiment) == "DONE")
    trial = Trial.objects.get()
    assert (trial.status, trial.final_number, trial.result_index, trial.parameter_set_count) == (
        "SUCCEEDED", 0.75, 1, 3)
    sets = list(TrialParameters.objects.order_by("index"))
    assert [row.final_number for row in sets] == [0.25, 0.75, 0.5]
    assert len({row.value["x"] for row in sets}) == 3, "the tuner proposed each once"
    assert events() == [("ask", 0, None), ("tell", 0, 0.25), ("ask", 1, trial.public_id), ("tell", 1, 0.75),
                        ("ask", 2, trial.public_id), ("tell", 2, 0.5), ("tell", 0, 0.25)]


def test_the_platform_is_handed_each_set_once_by_its_service(make_rig) -> None:
    forms: list[JobApplicationForm] = []

    class NotingService(DocileTrainingService):
        def update_trial_job(self, job_name: str, form: JobApplicationForm) -> TrialJobDetail:
            forms.append(form)
            return super().update_trial_job(job_name, form)

    rig = make_rig(NotingService)
    [trial] = rig.submitted(multi_phase(rig), 1)
    assert rig.service.get_trial_job(trial.public_id).form.multi_phase
    keeper = Keeper(trial)
    keeper.ask(1)
    rig.until(lambda: len(forms) == 1)
    rig.rounds()
    assert [(form.job_name, form.hyper_parameters.index) for form in forms] == [(trial.public_id, 1)]
    keeper.say()
    assert json.loads(forms[0].hyper_parameters.value) == keeper.given[1], "both ways bring the same"


def test_a_platform_that_cannot_take_a_set_now_is_given_it_again(make_rig) -> None:
    calls: list[int] = []

    class BusyService(DocileTrainingService):
        def update_trial_job(self, job_name: str, form: JobApplicationForm) -> TrialJobDetail:
            calls.append(form.hyper_parameters.index)
            if len(calls) == 1:
                raise TemporaryError("It is away.")
            return super().update_trial_job(job_name, form)

    rig = make_rig(BusyService)
    [trial] = rig.submitted(multi_phase(rig), 1)
    Keeper(trial).ask(1)
    rig.until(lambda: calls == [1])
    rig.rounds()
    assert calls == [1]
    rig.skip(5)
    rig.until(lambda: calls == [1, 1])


def test_a_tuner_without_more_answers_that_there_are_none_and_the_trial_ends_well(make_rig) -> None:
    rig = make_rig()
    experiment = multi_phase(rig, search_space={"x": {"_type": "choice", "_value": [1, 2]}}, max_trial_number=5)
    [trial] = rig.submitted(experiment, 1)
    keeper = Keeper(trial)
    keeper.final(0, 1)
    assert keeper.next(rig, 1)["parameters"] is not None
    keeper.final(1, 2)
    assert keeper.next(rig, 2)["parameters"] is None
    keeper.end()
    rig.until(lambda: status_of(experiment) == "DONE")
    assert Trial.objects.get().parameter_set_count == 2
    assert experiment.next_ask == 2


def test_a_new_worker_goes_on_with_the_same_tuner_and_asks_nothing_twice(make_rig) -> None:
    def run(with_change: bool) -> list[Any]:
        rig = make_rig()
        experiment = multi_phase(rig, tuner={"name": "TPE", "class_args": {"seed": 3}}, seed=3,
                                 search_space={"x": {"_type": "uniform", "_value": [0, 1]}})
        [trial] = rig.submitted(experiment, 1)
        keeper = Keeper(trial)
        keeper.final(0, 0.5)
        for index in range(1, 6):
            keeper.ask(index)
            if with_change and index in (2, 4):
                rig.runner._close()
                rig.runner = rig.new_runner(f"worker-{index}")
                rig.until(lambda: rig.runner.work.service is not None)
            rig.until(lambda: keeper.say() and index in keeper.given)  # noqa: B023
            if with_change and index == 5:
                rig.runner._close()
                rig.runner = rig.new_runner("worker-9")
            keeper.final(keeper.given[index]["parameter_id"], index / 10)
        keeper.end()
        rig.until(lambda: status_of(experiment) == "DONE")
        rows = TrialParameters.objects.filter(trial__experiment=experiment).order_by("index")
        assert list(rows.values_list("parameter_id", flat=True)) == list(range(6))
        return list(rows.values_list("value", flat=True))

    assert run(with_change=True) == run(with_change=False)


def test_a_question_whose_trial_ended_meanwhile_leaves_nothing_behind(make_rig, monkeypatch) -> None:
    rig = make_rig()
    experiment = multi_phase(rig, max_trial_number=2)
    [trial] = rig.submitted(experiment, 1)
    keeper = Keeper(trial)
    keeper.ask(1)
    ask = rig.runner.work.tuners.ask_for_trials

    def ask_and_end(*args: Any) -> None:
        if args[2]:
            monkeypatch.setattr(rig.runner.work.tuners, "ask_for_trials", ask)
            keeper.end(1)
        ask(*args)

    monkeypatch.setattr(rig.runner.work.tuners, "ask_for_trials", ask_and_end)
    second = rig.submitted(experiment, 2)[1]
    assert TrialParameters.objects.filter(trial=trial).count() == 1
    assert second.ask_number == 1
    assert TrialParameters.objects.get(trial=second).value != TrialParameters.objects.get(trial=trial).value


def test_a_second_attempt_gets_the_sets_of_the_first_and_what_they_gave_stays(make_rig) -> None:
    rig = make_rig()
    experiment = multi_phase(rig, retry={"onFailure": 1})
    [trial] = rig.submitted(experiment, 1)
    keeper = Keeper(trial)
    keeper.final(0, 0.25)
    first = keeper.next(rig, 1)
    keeper.final(1, 0.75)
    keeper.end(1)
    rig.until(lambda: Attempt.objects.filter(trial=trial, number=2, stage="submitted").exists())
    assert Trial.objects.get().final_number == 0.75
    again = Keeper(trial, "second")
    again.final(0, 0.125)
    assert again.next(rig, 1) == first
    again.final(1, 0.5)
    given = again.next(rig, 2)
    assert given["parameter_id"] == 2
    again.final(2, 1)
    again.end()
    rig.until(lambda: status_of(experiment) == "DONE")
    assert [row.final_number for row in TrialParameters.objects.order_by("index")] == [0.25, 0.75, 1.0]
    assert (Trial.objects.get().final_number, Trial.objects.get().result_index) == (1.0, 2)


def test_a_paused_experiments_trials_go_on_to_their_end_and_a_stopped_ones_do_not(make_rig) -> None:
    rig = make_rig()
    experiment = multi_phase(rig)
    [trial] = rig.submitted(experiment, 1)
    keeper = Keeper(trial)
    intents.pause(experiment)
    assert keeper.next(rig, 1)["parameters"] is not None
    intents.stop(experiment)
    keeper.ask(2)
    rig.rounds(5)
    assert TrialParameters.objects.count() == 2


def test_trials_that_ask_all_the_time_do_not_keep_free_slots_empty(make_rig) -> None:
    rig = make_rig()
    experiment = multi_phase(rig, trial_concurrency=4, max_trial_number=4, tuner={"name": "Random"})
    keeper, index = Keeper(rig.submitted(experiment, 1)[0]), 0
    while Trial.objects.filter(experiment=experiment).count() < 4:
        index += 1
        keeper.next(rig, index)
        assert index < 200
    assert sorted(TrialParameters.objects.values_list("parameter_id", flat=True)) == list(
        range(Experiment.objects.get().next_ask))


def test_a_result_without_a_number_is_taught_as_none_and_later_ones_count(make_rig) -> None:
    rig = make_rig()
    experiment = multi_phase(rig)
    [trial] = rig.submitted(experiment, 1)
    keeper = Keeper(trial)
    keeper.final(0, "nothing")
    keeper.next(rig, 1)
    keeper.final(1, 0.5)
    keeper.final(1, 0.9)
    keeper.final(77, 0.95)
    keeper.end()
    rig.until(lambda: status_of(experiment) == "DONE")
    assert (Trial.objects.get().final_number, Trial.objects.get().result_index) == (0.5, 1), (
        "the first result of a set counts, and one of a set that it was not given is none")


def test_without_multi_phase_a_question_is_not_answered(make_rig) -> None:
    rig = make_rig()
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    keeper = Keeper(trial)
    keeper.ask(1)
    rig.rounds(5)
    assert TrialParameters.objects.count() == 1
    keeper.final(0, 0.25)
    assert TrialParameters.objects.get().final_number is None
    assert Trial.objects.get().final_number == 0.25


OWN = """
from nni.tuner import Tuner

class Mine(Tuner):
    def __init__(self):
        self.said = []
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        self.said.append(["ask", parameter_id, kwargs.get("trial_job_id")])
        return {"said": [list(one) for one in self.said]}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self.said.append(["result", parameter_id, value, kwargs.get("trial_job_id")])
    def trial_end(self, parameter_id, success, **kwargs):
        self.said.append(["end", parameter_id, success])
"""


@pytest.fixture
def own_tuner(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "mine.py").write_text(OWN)
    return {"class_name": "mine.Mine", "code_directory": str(tmp_path)}


def test_a_tuner_of_ones_own_is_asked_with_the_trials_id_and_told_each_result(make_rig, own_tuner) -> None:
    rig = make_rig()
    experiment = multi_phase(rig, tuner=own_tuner, max_trial_number=2)
    [trial] = rig.submitted(experiment, 1)
    keeper = Keeper(trial)
    keeper.final(0, {"default": 1, "other": 2})
    assert keeper.next(rig, 1)["parameters"]["said"] == [
        ["ask", 0, None], ["result", 0, {"default": 1, "other": 2}, trial.public_id], ["ask", 1, trial.public_id]]
    rig.runner.work.tuners.forget(experiment.pk)  # as after a crash
    keeper.final(1, 2)
    keeper.end()
    second = rig.submitted(experiment, 2)[1]
    said = TrialParameters.objects.get(trial=second, index=0).value["said"]
    assert said == [
        ["ask", 0, None], ["result", 0, {"default": 1, "other": 2}, trial.public_id], ["ask", 1, trial.public_id],
        ["result", 1, 2, trial.public_id], ["end", 0, True], ["ask", 2, None]]


BLOCKS = """
import threading
from nni.tuner import Tuner

class Mine(Tuner):
    def __init__(self):
        self.heard = threading.Event()
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        if "trial_job_id" in kwargs:
            self.heard.wait()
        return {"x": parameter_id}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        if value == "go":
            self.heard.set()
"""


def test_a_tuner_in_threads_may_block_for_one_trial_until_another_gives_a_result(make_rig, tmp_path) -> None:
    (tmp_path / "mine.py").write_text(BLOCKS)
    rig = make_rig()
    experiment = multi_phase(rig, trial_concurrency=2, max_trial_number=2, tuner={
        "class_name": "mine.Mine", "code_directory": str(tmp_path), "multi_thread": True})
    one, other = (Keeper(trial) for trial in rig.submitted(experiment, 2))
    one.ask(1)
    rig.rounds(5)
    assert TrialParameters.objects.count() == 2, "its call blocks"
    other.final(1, "go")
    rig.until(lambda: one.say() and 1 in one.given)
    assert one.given[1]["parameters"] == {"x": 2}
    for keeper in (one, other):
        keeper.end()
    rig.until(lambda: status_of(experiment) == "DONE")


ADVISOR = """
import json
from nni.runtime.msg_dispatcher_base import MsgDispatcherBase
from nni.runtime.protocol import CommandType, send
from nni.common import multi_phase_enabled

class Mine(MsgDispatcherBase):
    def handle_initialize(self, data):
        self.ids, self.waiting = iter("abcdefgh"), None
        send(CommandType.Initialized, "")
    def handle_request_trial_jobs(self, data):
        for _ in range(data):
            send(CommandType.NewTrialJob, json.dumps({"parameter_id": next(self.ids), "parameters": {"x": 0}}))
    def handle_update_search_space(self, data):
        pass
    def handle_report_metric_data(self, data):
        if data["type"] == "REQUEST_PARAMETER":
            assert multi_phase_enabled()
            self.waiting = data  # it answers with the next result
        elif data["type"] == "FINAL" and self.waiting:
            self.answer(json.loads(data["value"]))
    def handle_trial_end(self, data):
        pass
    def answer(self, x):
        asked, self.waiting = self.waiting, None
        parameters = {"x": x} if x < 3 else None
        send(CommandType.SendTrialJobParameter, json.dumps({
            "parameter_id": next(self.ids), "parameters": parameters, "trial_job_id": asked["trial_job_id"],
            "parameter_index": asked["parameter_index"]}))
"""


def test_an_advisor_of_ones_own_may_answer_later(make_rig, tmp_path) -> None:
    (tmp_path / "mine.py").write_text(ADVISOR)
    rig = make_rig()
    experiment = multi_phase(rig, trial_concurrency=2, max_trial_number=2,
                             tuner={"class_name": "mine.Mine", "code_directory": str(tmp_path)})
    one, other = (Keeper(trial) for trial in rig.submitted(experiment, 2))
    one.ask(1)
    rig.rounds(5)
    assert TrialParameters.objects.count() == 2, "the advisor waits for a result"
    other.final(1, 1)
    rig.until(lambda: one.say() and 1 in one.given)
    assert one.given[1]["parameters"] == {"x": 1}
    one.ask(2)
    other.ask(1)
    rig.rounds(3)
    one.final(one.given[1]["parameter_id"], 5)
    for keeper in (one, other):
        keeper.end()
    rig.until(lambda: status_of(experiment) == "DONE")



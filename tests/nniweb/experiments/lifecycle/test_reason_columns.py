"""Reasons of trials and experiments: kept as codes, told by REST, filtered by, counted."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest
from django.utils import timezone

from nniweb.experiments.lifecycle.reason_columns import read, reason_of, said, struck_reason
from nniweb.experiments.lifecycle.transitions import move_trial
from nniweb.experiments.lifecycle.trial_end import TrialEnd, completed, held
from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.trial_filter import FilterInvalid, fitting_trials
from nniweb.http.reason_serializer import MEANINGS
from nniweb.observability.database_figures import DatabaseFigures
from trainingservice.reasons import CODES, Reason
from trainingservice.trial_job_status import TrialJobStatus

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[4]
QUOTA = Reason("quota", whose={"kind": "person", "name": "ada"}, unit="trials", most=2)


def wait_for(trial: Trial, message: str) -> Trial:
    Trial.objects.filter(pk=trial.pk).update(**said(message))
    trial.refresh_from_db()
    return trial


def test_a_row_keeps_sentence_code_and_arguments_and_gives_them_back(make_attempt) -> None:
    trial = wait_for(make_attempt(status="WAITING").trial, QUOTA)
    assert (trial.message, trial.reason, trial.reason_arguments) == (
        str(QUOTA), "quota", {"whose": {"kind": "person", "name": "ada"}, "unit": "trials", "most": 2})
    again = reason_of(trial)
    assert isinstance(again, Reason)
    assert (again, again.code) == (QUOTA, "quota")


def test_what_a_newer_version_has_written_is_read_as_its_sentence() -> None:
    assert read("Waits for the moon.", "moon", {"phase": 1}) == "Waits for the moon."
    assert read("Waits.", "quota", {"of": "another version"}) == "Waits."


def test_text_that_no_database_takes_is_replaced_in_arguments_too() -> None:
    columns = said(Reason("refused", said="a\x00b"))
    assert "\x00" not in columns["message"] + columns["reason_arguments"]["said"]


def test_secrets_are_struck_out_of_arguments_too(monkeypatch) -> None:
    reasons = importlib.import_module("nniweb.experiments.lifecycle.reason_columns")
    monkeypatch.setattr(reasons, "struck_out", lambda text: text.replace("hunter2", "***"))
    struck = struck_reason(Reason("machines_busy", asked=0, machines=[{"said": "m: hunter2"}]))
    assert struck == "Waits for a free machine: m: ***."
    assert struck.arguments["machines"] == [{"said": "m: ***"}]  # type: ignore[attr-defined]


def test_another_status_does_not_keep_the_code_of_the_one_before(make_attempt) -> None:
    trial = wait_for(make_attempt(status="WAITING").trial, QUOTA)
    assert move_trial(trial.pk, TrialJobStatus.RUNNING, timezone.now(), revision=1, message="")
    trial.refresh_from_db()
    assert (trial.message, trial.reason, trial.reason_arguments) == ("", "", {})


def test_rest_tells_code_and_arguments_beside_the_sentence(make_attempt, admin, client) -> None:
    attempt = make_attempt(status="WAITING")
    wait_for(attempt.trial, QUOTA)
    client.force_login(admin)
    told = client.get(f"/api/v1/trials/{attempt.trial.public_id}/").json()
    assert told["message"] == str(QUOTA)
    assert told["reason"] == {"code": "quota", "whose": {"kind": "person", "name": "ada"}, "unit": "trials", "most": 2}
    experiment = client.get(f"/api/v1/experiments/{attempt.trial.experiment.public_id}/").json()
    assert experiment["reason"]["code"] in CODES


def test_the_schema_lists_every_code_with_its_meaning(admin, client) -> None:
    client.force_login(admin)
    schema = client.get("/api/schema/?format=json").json()
    texts = "\n".join(one.get("description", "") for one in schema["components"]["schemas"].values())
    assert MEANINGS
    assert [code for code, meaning in MEANINGS.items() if f"`{code}` - {meaning}" not in texts] == []


def test_a_command_that_is_refused_says_why_with_a_code(make_attempt, admin, client) -> None:
    experiment = make_attempt(status="RUNNING").trial.experiment
    Experiment.objects.filter(pk=experiment.pk).update(status="DONE", max_trial_number=1, next_sequence_id=1)
    Trial.objects.filter(experiment=experiment).update(status="SUCCEEDED")
    client.force_login(admin)
    address = f"/api/v1/experiments/{experiment.public_id}"

    def refused(command: str) -> tuple[int, dict]:
        answer = client.post(f"{address}/actions/{command}/", content_type="application/json")
        error, = answer.json()["errors"]
        assert error["message"] == Reason(error["reason"]["code"], **{
            key: value for key, value in error["reason"].items() if key != "code"})
        return answer.status_code, error["reason"]

    assert refused("pause") == (409, {"code": "wrong_status", "status": "DONE", "wish": "pause"})
    assert refused("resume") == (409, {
        "code": "limit_reached", "limit": "The only trial that maxTrialNumber allows was created.", "wish": "resume",
        "because": {"code": "max_trial_number", "most": 1}})


def test_a_cluster_in_use_says_so_with_a_code(make_attempt, admin, client) -> None:
    cluster = make_attempt(status="RUNNING").trial.experiment.cluster
    client.force_login(admin)
    answer = client.delete(f"/api/v1/clusters/{cluster.public_id}/")
    error, = answer.json()["errors"]
    assert (answer.status_code, error["reason"]["code"], error["reason"]["cluster"]) == (
        409, "cluster_in_use", cluster.name)


def test_trials_are_filtered_by_the_code(make_attempt) -> None:
    attempt = make_attempt(status="WAITING")
    experiment, now = attempt.trial.experiment, timezone.now()
    wait_for(attempt.trial, QUOTA)

    def found(text: str) -> int:
        return len(fitting_trials(Trial.objects.filter(experiment=experiment), text, experiment, now))

    assert [found(text) for text in ("reason = quota", "reason != quota", "reason in (quota, exit_code)",
                                     "reason ~ quo", "reason = none")] == [1, 0, 1, 1, 0]
    with pytest.raises(FilterInvalid, match="quota"):
        found("reason = qouta")


def test_waiting_trials_are_counted_by_the_code(make_attempt) -> None:
    attempt = make_attempt(status="WAITING")
    wait_for(attempt.trial, QUOTA)
    family, = (each for each in DatabaseFigures().collect() if each.name == "nniweb_trials_waiting")
    assert [(sample.labels["reason"], sample.value) for sample in family.samples] == [("quota", 1)]


@pytest.mark.parametrize(("sentence", "code"), [
    ("It waits for a free slot.", "free_slot"),
    ("The experiment is PAUSED; it is submitted when the experiment is resumed.", "experiment_held"),
    ("Waits for 2 GPUs: 1 GPU of machine m is free; GPU 0 is held by abc.", "gpu_held"),
    ("Its keeper speaks version 9 of the keepers' protocol and was started by a newer NNI Web; ...", "keeper_version"),
    ("The platform is away. It is submitted again in 15 s.", "not_submitted"),
    ("The command ended with exit code 3. Its last words: x", "exit_code"),
    ("The command ended with exit code 3. It is tried again (1 of 2).", "tried_again"),
    ("A plug-in's own words", "other"),
])
def test_sentences_of_earlier_versions_are_recognised_where_they_can_be(make_attempt, sentence: str, code: str) -> None:
    trial = make_attempt(status="WAITING").trial
    Trial.objects.filter(pk=trial.pk).update(message=sentence, reason="", reason_arguments={})
    migration = importlib.import_module("nniweb.experiments.migrations.0030_reasons")
    from django.apps import apps

    migration.recognise(apps, None)
    trial.refresh_from_db()
    assert (trial.message, trial.reason) == (sentence, code)
    assert reason_of(trial) == sentence or code in ("free_slot",)


def test_an_end_that_is_held_for_the_platforms_word_keeps_its_code() -> None:
    kept = held(TrialEnd(TrialJobStatus.SYS_CANCELED, Reason("keeper_stopped"), "stopped", None, 1.0))
    silent = {"status": "FAILED", "message": "", "code": "", "arguments": {}, "exit_code": 1, "cause": ""}
    assert completed(kept, silent)["code"] == "keeper_stopped"
    evicted = silent | {"message": "Evicted.", "code": "platform"}
    assert completed(kept, evicted)["code"] == "platform"


def test_an_experiment_at_its_limit_keeps_the_reason_until_it_is_done(make_attempt) -> None:
    experiment = make_attempt().trial.experiment
    Experiment.objects.filter(pk=experiment.pk).update(**said(Reason("max_trial_number", most=1)))
    experiment.refresh_from_db()
    assert isinstance(reason_of(experiment), Reason)


#: Names whose values are sentences for people.
SENTENCES = {"message", "sentence", "explanation", "trouble", "problem", "fault", "health_message"}
READS = {"startswith", "endswith", "find", "rfind", "index", "partition", "rpartition", "split", "rsplit",
         "removeprefix", "removesuffix", "count"}
EXPRESSIONS = {"search", "match", "fullmatch", "findall", "finditer"}
#: Places that read words of somebody else: no reason of ours is told from them. File -> whose words.
WORDS_OF_OTHERS = {
    "nniweb/api/experiments/launch_code.py": "an error of the config in which a path of the server must not be shown",
    "nniweb/http/error_form.py": "those of Django REST framework, which are put into our words",
    "trainingservice/files/yaml_faults.py": "the YAML library's",
    "trainingservice/openpai/api.py": "the answers of OpenPAI",
    "trainingservice/reasons.py": "causes of platforms without codes (tells_of)",
}


def _name_of(node: ast.expr) -> str:
    """The last name of ``a.b.message``, also under str() and methods: what the value is called."""
    while isinstance(node, ast.Call | ast.Subscript):
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif getattr(node.func, "id", "") == "str" and node.args:
            node = node.args[0]
        else:
            return ""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _reads_a_sentence(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in READS:
            return _name_of(node.func.value) in SENTENCES
        return node.func.attr in EXPRESSIONS and any(_name_of(argument) in SENTENCES for argument in node.args)
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return isinstance(node.comparators[0], ast.Attribute | ast.Name | ast.Call) \
            and _name_of(node.comparators[0]) in SENTENCES
    return isinstance(node, ast.keyword) and (node.arg or "").startswith((
        "message__startswith", "message__contains", "message__regex", "message__iregex", "message__endswith",
        "message__istartswith"))


@pytest.mark.parametrize("code", [
    'message.startswith("Waits")', 'trial.message.lower().find("held")', '"held by" in trial.message',
    '"held by" not in str(message)', 're.search("held by", trial.message)', 'HELD.match(message)',
    'Trial.objects.filter(message__startswith="The")'])
def test_each_way_to_read_a_sentence_is_seen(code: str) -> None:
    assert any(map(_reads_a_sentence, ast.walk(ast.parse(code))))


@pytest.mark.parametrize("code", ['code_of(message) == "quota"', 'message in known', 'Q(message__icontains=text)'])
def test_what_reads_no_sentence_is_let_through(code: str) -> None:
    assert not any(map(_reads_a_sentence, ast.walk(ast.parse(code))))


def test_no_code_reads_a_sentence() -> None:
    """Neither in Python nor in a question to the database. What people search for (``icontains``) is theirs."""
    found: dict[str, list[int]] = {}
    for package in ("nniweb", "trainingservice"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = "" if "migrations" in path.parts else path.read_text()
            if any(name in text for name in SENTENCES):  # most files need no further look
                for node in filter(_reads_a_sentence, ast.walk(ast.parse(text))):
                    found.setdefault(str(path.relative_to(ROOT)), []).append(
                        node.value.lineno if isinstance(node, ast.keyword) else node.lineno)  # type: ignore[attr-defined]
    assert {path: lines for path, lines in found.items() if path not in WORDS_OF_OTHERS} == {}
    assert found.keys() == WORDS_OF_OTHERS.keys(), "a place that reads nothing any more"

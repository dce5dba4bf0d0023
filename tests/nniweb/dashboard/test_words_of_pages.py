"""The words that people read on pages and in terminals: one word for one thing, the field's own."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nniweb.client.words import experiments_table, progress_line, trials_table
from nniweb.dashboard.words import way_of_reports
from nniweb.documents.experiments import document
from nniweb.experiments.actions import intents
from nniweb.experiments.lifecycle.reason_columns import said
from nniweb.experiments.models import Trial, User
from tests.nniweb.dashboard.test_page_words import in_node
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus
from trainingservice.words.byte_size import byte_size
from trainingservice.words.status_words import WORDS, status_word

ROOT = Path(__file__).resolve().parents[3]
#: What people no longer read, and what they read in its place.
REPLACED = {
    "Keep it as it is": "Cancel", "towards the maximum number": "towards the trial limit",
    "<dt>At once": "Concurrency",
    "logarithmic across": "log x", "logarithmic up": "log y", "Points that trials could receive": "Sample points",
    ">Others<": "Resample", "Choose none": "Clear selection", "Take away": "Remove", "As usual": "Reset columns",
    "that fit are": "that match are", "Way home:": "Reports via", "no base directory": "Choose the code folder",
    "The value that the trial reported last": "Stopped early; last value", "Nothing is wrong. It": "Ready to launch",
    ">Make it<": "Create token", ">Set it<": "Set password", ">Rehearse<": "Test cluster",
    "\"Stop them\"": "Stop trials",
    "Cancel the trial": "Stop trial", "Canceled by a person": "Stopped by", "Stop it\"": "Stop experiment"}
SIZES = [0, 1, 2, 1000, 1023, 1024, 1048523, 1048525, 70_475_000_000, 3 * 1024**4, 5e18]


@pytest.mark.parametrize("old", REPLACED)
def test_the_old_words_are_gone(old: str) -> None:
    files = [path for folder in ("templates", "static/js", "nniweb", "trainingservice")
             for path in (ROOT / folder).rglob("*") if path.suffix in (".html", ".js", ".py")
             and "migrations" not in path.parts]
    assert len(files) > 500
    assert [str(path) for path in files if old in path.read_text()] == []


def test_sizes_have_one_unit_everywhere(tmp_path: Path) -> None:
    assert byte_size(70_475_000_000) == "65.6 GB"
    assert [byte_size(1), byte_size(1023), byte_size(1024), byte_size(1048525)] == [
        "1 byte", "1023 bytes", "1.0 KB", "1.0 MB"]
    assert in_node(tmp_path, "lib/byte_size.js", "byteSize", f"{json.dumps(SIZES)}.map(byteSize)") == [
        byte_size(size) for size in SIZES]
    written = [path for folder in ("templates", "static/js", "nniweb", "trainingservice")
               for path in (ROOT / folder).rglob("*") if path.suffix in (".html", ".js", ".py")
               and re.search(r"[\"'`}] ?[KMG]iB|filesizeformat", path.read_text())]
    assert written == []


def test_statuses_have_the_same_words_on_pages_and_in_terminals(tmp_path: Path) -> None:
    statuses = [*WORDS, *(status.value for status in TrialJobStatus), "DONE"]
    assert in_node(tmp_path, "lib/formats.js", "statusWord", f"{json.dumps(statuses)}.map(statusWord)") == [
        status_word(status) for status in statuses]
    assert status_word("USER_CANCELED") == "STOPPED"
    assert status_word("SUCCEEDED") == "SUCCEEDED"


def test_a_terminal_says_stopped(make_experiment: Any) -> None:
    experiment = make_experiment(status="NO_MORE_TRIAL", max_trial_number=2)
    Trial.objects.create(experiment=experiment, sequence_id=0, status="USER_CANCELED", created_at=experiment.created_at)
    shown = document(experiment)
    assert "1 stopped" in progress_line(shown)
    assert progress_line(shown).partition("] ")[2].startswith("FINISHING")
    assert "FINISHING" in experiments_table([shown])[1]
    trial = {"sequence_id": 0, "id": "abc", "status": "USER_CANCELED", "duration": None, "final_number": None,
             "parameters": {}, "message": ""}
    assert "STOPPED" in trials_table([trial])[1]


def test_who_stopped_a_trial_is_said(make_experiment: Any) -> None:
    ada, _ = User.objects.get_or_create(username="ada")
    experiment = make_experiment(status="RUNNING")
    trials = [Trial.objects.create(experiment=experiment, sequence_id=number, status="WAITING",
                                   created_at=experiment.created_at) for number in range(3)]
    intents.cancel_trial(trials[0], ada)
    intents.cancel_trials(experiment, [trials[1].pk], ada)
    intents.cancel_trial(trials[2])
    assert list(Trial.objects.order_by("sequence_id").values_list("message", "reason", "reason_arguments")) == [
        ("Stopped by ada.", "canceled", {"by": "ada"}), ("Stopped by ada.", "canceled", {"by": "ada"}),
        ("Stopped by a person.", "canceled", {})]


def test_an_experiment_that_its_trial_limit_ended_says_how_its_trials_ended(make_experiment: Any) -> None:
    experiment = make_experiment(status="DONE", max_trial_number=3, **said(Reason("max_trial_number", most=3)))
    for number, status in enumerate(["SUCCEEDED", "SUCCEEDED", "FAILED"]):
        Trial.objects.create(experiment=experiment, sequence_id=number, status=status,
                             created_at=experiment.created_at)
    told = document(experiment)
    assert told["message"] == "Finished: 3 of 3 trials (2 succeeded, 1 failed)."
    assert told["reason"]["code"] == "max_trial_number"


def test_how_reports_come_is_said_in_words() -> None:
    assert way_of_reports("relay") == "Reports via SSH tunnel"
    assert way_of_reports("the shared folder") == "the shared folder"

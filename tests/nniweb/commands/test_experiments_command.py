"""``manage.py experiments``."""

import csv
import io
import json
import re

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from nniweb.experiments.models import Attempt, Experiment, Metric, Trial, TrialParameters, TunerEvent


def run(*arguments: object) -> str:
    out = io.StringIO()
    call_command("experiments", *map(str, arguments), stdout=out, stderr=io.StringIO())
    return out.getvalue()


@pytest.fixture
def experiment(make_experiment, make_attempt) -> Experiment:
    experiment = make_experiment(public_id="abc123abc123", name="mice")
    now = timezone.now()
    for final in ("0.5", "0.25", None):
        attempt = make_attempt(experiment, status="SUCCEEDED" if final else "FAILED",
                               final_value=final or '"\ud800,\x00"',
                               final_number=float(final) if final else None, message="" if final else "It broke.")
        Attempt.objects.filter(pk=attempt.pk).update(duration=1.5, exit_code=0)
        for n, (sequence, value) in enumerate([(1, "0.1"), (0, "0.0"), (1, "NaN")]):
            Metric.objects.create(attempt=attempt, n=n, kind="PERIODICAL", sequence=sequence, value=value,
                                  recorded_at=now, received_at=now)
    TrialParameters.objects.filter(trial__sequence_id=1).update(
        value={"x": 0.75, "net": {"_name": "mlp", "units": [1, 2]}})
    return experiment


def test_a_list_has_a_line_for_each(experiment, make_experiment) -> None:
    make_experiment(name="old", archived=True)
    lines = run().splitlines()
    assert lines[0].split() == ["ID", "NAME", "STATUS", "TRIALS", "BEST", "OWNER", "CREATED"]
    assert len(lines) == 2
    assert lines[1].split()[:6] == ["abc123abc123", "mice", "RUNNING", "3/10", "0.25", "ada"]
    assert len(run("list", "--all").splitlines()) == 3


def test_an_empty_list_says_how_to_begin(db) -> None:
    assert "manage.py launch" in run("list")


def test_show_tells_the_best_trial_and_what_is_wrong(experiment) -> None:
    text = run("show", "abc")
    best = Trial.objects.get(sequence_id=1)
    assert f"Best trial: 1 ({best.public_id}), final value 0.25" in text
    assert '  net = {"_name": "mlp", "units": [1, 2]}' in text
    assert "FAILED: It broke." in text
    assert "No worker is alive" in text
    assert "/experiments/abc123abc123/" in text


def test_results_are_imported_from_a_file(experiment, tmp_path) -> None:
    file = tmp_path / "results.json"
    file.write_text('[{"parameter": {"x": 0.5}, "value": "0.25", "trialJobId": "aBcDe"}]')
    assert run("import", "abc", "--filename", file) == "1 result was imported for the tuner of mice (abc123abc123).\n"
    event = TunerEvent.objects.get(experiment=experiment).data
    assert (event["number"], event["parameters"], event["value"]) == (None, {"x": 0.5}, 0.25)
    for text, words in (("[{]", "is not JSON: line 1, column 3: the name"),
                        ('[{"value": 1}]', "results[0].parameter: Must be an object"),
                        ("{}", "Give a list of results")):
        file.write_text(text)
        with pytest.raises(CommandError, match=re.escape(words)):
            run("import", "abc", "-f", file)
    with pytest.raises(CommandError, match="cannot be read"):
        run("import", "abc", "-f", tmp_path / "nowhere.json")
    assert TunerEvent.objects.count() == 1
    file.write_text('[{"parameter": {"x": 0.5}, "value": 1}, {"parameter": {"x": 1}, "value": 1}]')
    Experiment.objects.filter(pk=experiment.pk).update(status="DONE")
    assert run("import", "abc", "-f", file) == ("2 results were imported for the tuner of mice (abc123abc123). It gets "
                                                "them when the experiment is resumed.\n")


def test_an_imported_one_is_found_by_the_id_that_it_had_with_nni(experiment, make_experiment) -> None:
    make_experiment(public_id="xyz000000000", foreign_id="abc123ab", name="rats")
    assert "rats (xyz000000000)" in run("show", "abc123ab"), "the whole id comes before the beginning of another"
    assert "mice (abc123abc123)" in run("show", "abc123abc")
    with pytest.raises(CommandError, match="Several experiments"):
        run("show", "abc1")
    make_experiment(public_id="xyz111111111", foreign_id="abc123abc123", name="a copy")
    assert "mice (abc123abc123)" in run("show", "abc123abc123"), "the own id comes before one from elsewhere"


def test_an_id_may_be_cut_short_as_long_as_it_is_one(experiment, make_experiment) -> None:
    make_experiment(public_id="abd000000000")
    assert "mice" in run("show", "abc1")
    with pytest.raises(CommandError, match="Several experiments"):
        run("show", "ab")
    with pytest.raises(CommandError, match='no experiment whose id begins with "x"'):
        run("show", "x")


def test_pause_resume_and_stop_write_what_is_wanted(experiment) -> None:
    for verb, status in (("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPING")):
        assert "mice (abc123abc123) is being" in run(verb, "abc")
        experiment.refresh_from_db()
        assert experiment.status == status
    with pytest.raises(CommandError, match="still stopping"):
        run("resume", "abc")


def test_json_export_has_every_trial_exactly(experiment) -> None:
    document = json.loads(run("export", "abc", "--intermediate"))
    assert (document["experiment"]["id"], document["experiment"]["optimize_mode"]) == ("abc123abc123", "minimize")
    assert [trial["sequence_id"] for trial in document["trials"]] == [0, 1, 2]
    assert document["trials"][2]["final_value"] == '"\ud800,\x00"'
    assert document["trials"][1]["parameters"] == {"x": 0.75, "net": {"_name": "mlp", "units": [1, 2]}}
    assert document["trials"][0]["intermediate"] == ["0.0", "NaN"]  # the last of each sequence number
    assert "intermediate" not in json.loads(run("export", "abc"))["trials"][0]


def test_csv_export_has_a_column_for_each_parameter(experiment, tmp_path) -> None:
    path = tmp_path / "out.csv"
    run("export", "abc", "--format", "csv", "--output", path, "--intermediate")
    rows = list(csv.DictReader(path.open(newline="")))
    assert len(rows) == 3
    assert [row["parameters.x"] for row in rows] == ["0.5", "0.75", "0.5"]
    assert rows[1]["parameters.net.units"] == "[1, 2]"
    assert rows[0]["parameters.net._name"] == ""
    assert rows[2]["final_value"] == '"\\ud800,\x00"'
    assert json.loads(rows[0]["intermediate"]) == ["0.0", "NaN"]
    assert [entry.name for entry in tmp_path.iterdir() if "draft" in entry.name] == []


def test_csv_on_the_terminal_has_no_empty_lines(experiment) -> None:
    assert len(run("export", "abc", "--format", "csv").split("\r\n")) == 5


def test_an_export_that_cannot_be_written_gets_a_sentence(experiment, tmp_path) -> None:
    with pytest.raises(CommandError, match="cannot be written"):
        run("export", "abc", "--output", tmp_path / "none" / "out.json")


def test_an_export_of_many_trials_needs_few_queries(make_experiment, django_assert_max_num_queries) -> None:
    experiment = make_experiment(public_id="many00000000")
    trials = Trial.objects.bulk_create(Trial(experiment=experiment, sequence_id=n, created_at=timezone.now())
                                       for n in range(1200))
    TrialParameters.objects.bulk_create(TrialParameters(trial=trial, value={"x": 1}) for trial in trials)
    with django_assert_max_num_queries(19):
        assert len(json.loads(run("export", "many"))["trials"]) == 1200


def test_that_there_is_nothing_to_stop_is_said(experiment) -> None:
    Trial.objects.filter(status="WAITING").update(status="SUCCEEDED")
    for status in ("DONE", "STOPPED", "ERROR"):
        Experiment.objects.filter(pk=experiment.pk).update(status=status)
        assert run("stop", "abc") == f"mice (abc123abc123) is {status} already. There was nothing to stop.\n"
        assert Experiment.objects.get(pk=experiment.pk).status == status
    Experiment.objects.filter(pk=experiment.pk).update(status="RUNNING")
    assert run("stop", "abc").startswith("mice (abc123abc123) is being stopped.")


def test_failed_trials_are_run_again(experiment) -> None:
    assert run("rerun-failed", "abc") == "mice (abc123abc123) runs its failed trials again.\n"
    with pytest.raises(CommandError, match="There is no failed trial that has not been run again"):
        run("rerun-failed", "abc")


def test_one_that_is_done_goes_on_with_a_higher_limit(experiment) -> None:
    experiment.max_trial_number = experiment.next_sequence_id = 3
    experiment.config = {"maxTrialNumber": 3, "maxExperimentDuration": "60m", "trialConcurrency": 2}
    experiment.status = "DONE"
    experiment.save()
    assert json.loads(run("export", "abc"))["experiment"]["config"] == experiment.config
    with pytest.raises(CommandError, match="All 3 trials that maxTrialNumber allows were created"):
        run("resume", "abc")
    with pytest.raises(CommandError, match="All 2 trials that maxTrialNumber allows were created"):
        run("resume", "abc", "--max-trial-number", "2")
    with pytest.raises(CommandError, match="--max-duration: "):
        run("resume", "abc", "--max-duration", "soon")
    experiment.refresh_from_db()
    assert (experiment.status, experiment.max_trial_number) == ("DONE", 3)
    said = run("resume", "abc", "--max-trial-number", "9", "--max-duration", "2h")
    assert said == "mice (abc123abc123) is being resumed.\n"
    now = {"maxTrialNumber": 9, "maxExperimentDuration": "2h", "trialConcurrency": 2}
    assert json.loads(run("export", "abc"))["experiment"]["config"] == now
    assert json.loads(run("show", "abc", "--json"))["config"] == now
    experiment.refresh_from_db()
    assert (experiment.status, experiment.max_trial_number, experiment.max_duration) == ("RUNNING", 9, 7200)
    assert "maxTrialNumber" in run("changes", "abc")


def test_trials_and_metrics_are_listed_and_lists_are_json_for_programs(experiment) -> None:
    lines = run("trials", "abc").splitlines()
    assert lines[0].split() == ["NO", "ID", "STATUS", "RESULT", "DURATION", "PARAMETERS", "WHY"]
    assert lines[2].split()[2:4] == ["SUCCEEDED", "0.25"]
    assert lines[3].endswith("It broke.")
    assert len(run("trials", "abc", "--filter", "status = FAILED").splitlines()) == 2
    with pytest.raises(CommandError, match="--filter: At character"):
        run("trials", "abc", "--filter", "status =")
    assert [each["sequence_id"] for each in json.loads(run("trials", "abc", "--json"))] == [0, 1, 2]
    assert [each["number"] for each in json.loads(run("metrics", "abc", "--json"))][:3:2] == [0.0, 0.5]
    assert run("metrics", "abc").splitlines()[3].split()[-2:] == ["final", "0.5"]
    assert json.loads(run("list", "--json"))[0]["id"] == json.loads(run("show", "abc", "--json"))["id"]


def test_deleting_asks_and_where_nobody_can_be_asked_wants_a_word(experiment, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(CommandError, match="--yes"):
        run("delete", "abc")
    with pytest.raises(CommandError, match="stop it before deleting it"):
        run("delete", "abc", "--yes")
    Experiment.objects.update(status="STOPPED")
    assert run("delete", "abc", "--yes") == "mice (abc123abc123) was deleted.\n"
    assert "There are no experiments" in run("list")


def test_follow_ends_with_the_experiments_outcome(experiment) -> None:
    Experiment.objects.update(status="ERROR", message="The tuner broke.")
    with pytest.raises(SystemExit) as caught:
        run("follow", "abc")
    assert caught.value.code == 1
    Experiment.objects.update(status="DONE")
    assert "DONE  3/10 ended" in run("follow", "abc")


def test_options_for_another_server_are_not_taken_for_this_one(experiment, tmp_path) -> None:
    with pytest.raises(CommandError, match="--token-file is only for a server on another machine"):
        run("list", "--token-file", tmp_path / "token")


def test_a_trial_runs_again_after_the_end_with_what_is_changed(experiment) -> None:
    Experiment.objects.update(status="DONE", max_trial_number=3, next_sequence_id=3)
    text = run("rerun", "abc", "1", "--set", "x=0.5", "--set", "optimizer=adam")
    again = Trial.objects.get(sequence_id=3)
    assert f"Trial 1 runs again as trial 3 ({again.public_id})." in text
    assert again.parameter_sets.get().value == {"x": 0.5, "net": {"_name": "mlp", "units": [1, 2]}, "optimizer": "adam"}
    experiment.refresh_from_db()
    assert (experiment.status, experiment.max_trial_number) == ("RUNNING", 4)
    run("rerun", "abc", "0")
    assert Trial.objects.get(sequence_id=4).rerun_of.sequence_id == 0
    with pytest.raises(CommandError, match="has no trial 9"):
        run("rerun", "abc", "9")
    with pytest.raises(CommandError, match="is not NAME=VALUE"):
        run("rerun", "abc", "1", "--set", "x")


def test_a_name_is_enough_where_only_one_has_it(experiment, make_experiment) -> None:
    assert run("show", "mice").startswith("mice (abc123abc123)")
    make_experiment(public_id="xyz123xyz123", name="mice")
    with pytest.raises(CommandError, match='Several experiments have this name or an id that begins with "mice"'):
        run("show", "mice")
    make_experiment(public_id="micemicemice", name="rats")
    assert run("show", "micemicemice").startswith("rats"), "an id goes before a name"

"""Experiments that NNI has kept, read from databases as its releases write them, and imported."""

import copy
import io
import json
import re
import sqlite3
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from nniweb.experiments.actions import change_and_undo, intents
from nniweb.experiments.actions.imported_results import imports_of
from nniweb.experiments.config import ConfigInvalid, parse_experiment_config
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Experiment, Metric, Trial, TrialOutput, TunerEvent
from nniweb.experiments.nni_import import importing
from nniweb.experiments.nni_import.importing import import_archive
from nniweb.experiments.nni_import.nni_archive import UnreadableArchive, read_archive
from nniweb.experiments.nni_import.nni_archive_config import kept_config
from tests.nni_files.yaml_tables import read_table

SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}
START = 1_700_000_000_000


@pytest.fixture(autouse=True)
def data_folder(settings: Any, tmp_path: Path) -> None:
    settings.DATA_FOLDER = tmp_path / "data"
    settings.DATA_FOLDER.mkdir()


def v3(folder: Path) -> dict[str, Any]:
    return {"experimentName": "kept", "experimentType": "hpo", "searchSpace": SPACE, "trialCommand": "python3 trial.py",
            "trialCodeDirectory": str(folder), "trialConcurrency": 2, "maxTrialNumber": 6, "useAnnotation": False,
            "debug": False, "logLevel": "info", "experimentWorkingDirectory": str(folder),
            "tuner": {"name": "TPE", "classArgs": {"optimize_mode": "maximize", "seed": 3}},
            "trainingService": {"platform": "local", "trialCommand": "python3 trial.py", "debug": False,
                                "trialCodeDirectory": str(folder), "maxTrialNumberPerGpu": 1, "reuseMode": False}}


def v1(folder: Path) -> dict[str, Any]:
    return {"experimentName": "kept", "authorName": "someone", "trialConcurrency": 2, "maxExecDuration": 3600,
            "maxTrialNum": 6, "trainingServicePlatform": "local", "searchSpace": json.dumps(SPACE),
            "tuner": {"builtinTunerName": "TPE", "classArgs": {"optimize_mode": "maximize"}, "checkpointDir": "/x"},
            "versionCheck": True, "clusterMetaData": [
                {"key": "local_config", "value": {"maxTrialNumPerGpu": 1}},
                {"key": "trial_config", "value": {"command": "python3 trial.py", "codeDir": str(folder)}}]}


class Kept:
    """A folder as NNI leaves it."""

    def __init__(self, folder: Path, params: dict[str, Any],
                 columns: str = ", message text, environmentId text") -> None:
        self.folder = folder
        (folder / "db").mkdir(parents=True)
        self.db = sqlite3.connect(folder / "db" / "nni.sqlite")
        self.db.execute("CREATE TABLE ExperimentProfile (params text, id text, execDuration integer, startTime integer,"
                        " endTime integer, logDir text, nextSequenceId integer, revision integer)")
        self.db.execute("CREATE TABLE TrialJobEvent (timestamp integer, trialJobId text, event text, data text, "
                        f"logPath text, sequenceId integer{columns})")
        self.db.execute("CREATE TABLE MetricData (timestamp integer, trialJobId text, parameterId text, type text, "
                        "sequence integer, data text)")
        for revision in (0, 1):  # the highest revision counts
            changed = {**params, "trialConcurrency": 1} if revision == 0 else params
            self.db.execute("INSERT INTO ExperimentProfile VALUES (?, 'kEpt1234', 90, ?, ?, ?, 5, ?)",
                            (json.dumps(changed), START, START + 100_000, "/old/place/kEpt1234", revision))

    def event(self, seconds: float, trial: str, event: str, data: Any = None, sequence: int | None = None,
              log: str = "/old/place/kEpt1234/trials/{}") -> None:
        text = None if data is None else json.dumps(data)
        self.db.execute("INSERT INTO TrialJobEvent (timestamp, trialJobId, event, data, logPath, sequenceId) "
                        "VALUES (?, ?, ?, ?, ?, ?)", (START + seconds * 1000, trial, event, text, log.format(trial),
                                                      sequence))

    def metric(self, seconds: float, trial: str, kind: str, sequence: int, value: str, parameter_id: int) -> None:
        self.db.execute("INSERT INTO MetricData VALUES (?, ?, ?, ?, ?, ?)",
                        (START + seconds * 1000, trial, str(parameter_id), kind, sequence, json.dumps(value)))

    def trial(self, trial: str, sequence: int, x: float, end: str | None, source: str = "algorithm") -> None:
        given = {"parameter_id": sequence, "parameter_source": source, "parameters": {"x": x}, "parameter_index": 0}
        self.event(sequence, trial, "WAITING", given, sequence)
        self.event(sequence + 0.5, trial, "RUNNING", None, sequence)
        self.metric(sequence + 1, trial, "PERIODICAL", 0, str(x / 2), sequence)
        if end is not None:
            if end == "SUCCEEDED":
                self.metric(sequence + 2, trial, "FINAL", 0, json.dumps({"default": x, "other": 1}), sequence)
            self.event(sequence + 3, trial, end, None, sequence)

    def close(self) -> Path:
        self.db.commit()
        self.db.close()
        return self.folder


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    made = Kept(tmp_path / "nni" / "kEpt1234", v3(tmp_path))
    made.trial("aaaaa", 0, 0.25, "SUCCEEDED")
    made.trial("bbbbb", 1, 0.5, "FAILED")
    made.trial("ccccc", 2, 0.75, "EARLY_STOPPED")
    made.trial("ddddd", 3, 0.9, "SUCCEEDED", source="customized")
    made.trial("eeeee", 4, 0.1, None)
    logs = made.folder / "trials" / "aaaaa"
    logs.mkdir(parents=True)
    (logs / "trial.log").write_text("from the log\n")
    (logs / "stderr").write_text("a warning\n")
    return made.close()


def test_everything_that_nni_kept_is_shown(admin, kept: Path) -> None:
    experiment = import_archive(read_archive(kept), admin)
    assert (experiment.name, experiment.foreign_id, experiment.status) == ("kept", "kEpt1234", "STOPPED")
    assert (experiment.trial_concurrency, experiment.max_trial_number, experiment.running_seconds) == (2, 6, 90)
    assert experiment.optimize_mode == "maximize"
    trials = list(Trial.objects.order_by("sequence_id"))
    assert [(trial.foreign_id, trial.status, trial.final_number, trial.source) for trial in trials] == [
        ("aaaaa", "SUCCEEDED", 0.25, "tuner"), ("bbbbb", "FAILED", None, "tuner"),
        ("ccccc", "EARLY_STOPPED", None, "tuner"), ("ddddd", "SUCCEEDED", 0.9, "customized"),
        ("eeeee", "USER_CANCELED", None, "tuner")]
    assert trials[4].message == "The trial was still running when NNI stopped the experiment."
    assert trials[4].ended_at == experiment.ended_at
    assert trials[0].final_value == '{"default": 0.25, "other": 1}'
    assert trials[0].parameter_sets.get().value == {"x": 0.25}
    assert trials[0].attempts.get().duration == 2.5
    assert Metric.objects.count() == 7
    assert (trials[0].intermediate_count, trials[0].latest_number) == (1, 0.125)
    assert {row.stream: bytes(row.data) for row in TrialOutput.objects.all()} == {
        "stdout": b"from the log\n", "stderr": b"a warning\n"}


def test_the_tuner_is_told_all_earlier_results_and_ids_go_on(admin, kept: Path) -> None:
    experiment = import_archive(read_archive(kept), admin)
    told = [(event.data["number"], event.data["parameters"]["x"], event.data["value"])
            for event in TunerEvent.objects.order_by("number")]
    assert told == [(None, 0.25, 0.25), (None, 0.5, None), (None, 0.75, None), (None, 0.9, 0.9), (None, 0.1, None)]
    assert (experiment.next_ask, experiment.next_sequence_id, experiment.next_tuner_event) == (5, 5, 5)


def test_a_database_of_nni_1_is_read_as_well(admin, tmp_path: Path) -> None:
    made = Kept(tmp_path / "nni" / "old", v1(tmp_path), columns="")
    made.trial("aaaaa", 0, 0.25, "SUCCEEDED")
    made.event(9, "", "IMPORT_DATA", [{"parameter": {"x": 0.4}, "value": '{"default": 0.6, "loss": 1}'},
                                      {"parameter": {"x": 0.3}, "value": 1}])
    made.event(10, "", "IMPORT_DATA", [{"parameter": {"x": 0.1}, "value": 2}])
    experiment = import_archive(read_archive(made.close()), admin)
    assert (experiment.tuner["name"], experiment.trial_command) == ("TPE", "python3 trial.py")
    assert [[result["value"] for result in results] for results in imports_of(experiment)] == [
        [{"default": 0.6, "loss": 1}, 1], [2]]
    assert (experiment.search_space, experiment.max_duration) == (SPACE, 3600)
    events = [event.data for event in TunerEvent.objects.order_by("number")]
    assert [event["value"] for event in events] == [0.6, 1, 2, 0.25]
    assert ["more" in event for event in events] == [True, False, False, False]
    assert [json.loads(event.get("result", "null")) for event in events] == [
        {"default": 0.6, "loss": 1}, None, None, {"default": 0.25, "other": 1}]


def test_the_local_platform_of_nni_1_keeps_command_and_folder_alone(admin, tmp_path: Path) -> None:
    params = v1(tmp_path) | {"clusterMetaData": [{"key": "codeDir", "value": str(tmp_path)},
                                                 {"key": "command", "value": "python3 mnist.py"}]}
    params["tuner"] |= {"className": "TPE", "gpuIndices": "0"}
    made = Kept(tmp_path / "nni" / "old", params, columns="")
    experiment = import_archive(read_archive(made.close()), admin, go_on=True)
    assert (experiment.tuner["name"], experiment.trial_command) == ("TPE", "python3 mnist.py")
    assert (experiment.code_folder, experiment.cluster.platform) == (str(tmp_path), "local")
    assert experiment.config["tunerGpuIndices"] == [0]


def test_the_space_that_was_used_counts_and_not_the_file_it_came_from(admin, tmp_path: Path) -> None:
    made = Kept(tmp_path / "nni" / "kEpt1234", {**v3(tmp_path), "searchSpaceFile": "/gone/search_space.json"})
    experiment = import_archive(read_archive(made.close()), admin, go_on=True)
    assert experiment.search_space == SPACE


@pytest.mark.parametrize(("form", "columns"), [(v3, None), (v1, "")])
def test_the_space_that_annotations_gave_counts_and_they_are_not_read_again(admin, tmp_path: Path, form, columns
                                                                            ) -> None:
    made = Kept(tmp_path / "nni" / "kEpt1234", {**form(tmp_path), "useAnnotation": True},
                **({} if columns is None else {"columns": columns}))
    experiment = import_archive(read_archive(made.close()), admin, go_on=True)
    assert experiment.search_space == SPACE
    assert "useAnnotation" not in experiment.config
    assert experiment.code_folder


#: Key of clusterMetaData by section of the v1 file, as NNI's launchers send it.
KEYS = {"trial": "trial_config", "localConfig": "local_config", "machineList": "machine_list",
        "remoteConfig": "remote_config", "paiConfig": "pai_config", "paiYarnConfig": "pai_yarn_config",
        "kubeflowConfig": "kubeflow_config",
        "frameworkcontrollerConfig": "frameworkcontroller_config", "dltsConfig": "dlts_config",
        "amlConfig": "aml_config", "sharedStorage": "shared_storage_config"}
V1_FORMS = {name: section for name, section in read_table(
    Path(__file__).parents[3] / "recordings/nni/config_fields.yaml")["v1"].items()
    if name not in ("own class", "advisor")}


def as_sent(file: dict[str, Any]) -> dict[str, Any]:
    """What NNI's launcher makes of a v1 file: the body with which the manager starts, and which it keeps."""
    body = {key: value for key, value in file.items() if key not in (*KEYS, "searchSpacePath", "useAnnotation")}
    metadata = [{"key": KEYS[key], "value": value} for key, value in file.items() if key in KEYS]
    return {**body, "searchSpace": json.dumps(SPACE), "maxExecDuration": 3600, "maxTrialNum": 6, "versionCheck": True,
            "clusterMetaData": metadata}


def files_of(section: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The smallest file of a platform with each field of the platform's sections."""
    for field, _, _, value, *_ in section["fields"]:
        group, *parts = field.split(".")
        if group in KEYS and parts:
            file = copy.deepcopy(section["base"])
            place = file
            for part in (group, *parts[:-1]):
                key = int(part) if part.isdigit() else part
                place = place[key] if isinstance(place, list) else place.setdefault(key, {})
            place[parts[-1]] = value
            yield field, file


@pytest.mark.parametrize("name", V1_FORMS)
def test_what_nni_2_1_kept_means_what_the_file_meant_on_every_platform(tmp_path: Path, name: str) -> None:
    means_the_same([("the file", V1_FORMS[name]["base"])], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", V1_FORMS)
def test_every_field_of_a_platform_that_nni_2_1_kept_means_what_it_meant_in_the_file(
    tmp_path: Path, name: str
) -> None:
    means_the_same(files_of(V1_FORMS[name]), tmp_path)


def means_the_same(files: Iterable[tuple[str, dict[str, Any]]], folder: Path) -> None:
    (folder / "space.json").write_text(json.dumps(SPACE))
    wrong = []
    for field, file in files:
        meant = errors_or_settings({**file, "maxExecDuration": "1h", "maxTrialNum": 6}, folder)
        document, problems = kept_config(as_sent(file))
        kept = problems or errors_or_settings(document, folder)
        if kept != meant:
            wrong.append(f"{field}: {kept} instead of {meant}")
    assert not wrong, "\n".join(wrong)


def test_later_releases_that_kept_the_old_form_have_put_some_fields_of_the_new_one_beside_it(tmp_path: Path) -> None:
    """As NNI 2.4 and later do for Kubernetes without reuse."""
    body = as_sent(V1_FORMS["kubeflow"]["base"]) | {
        "maxExperimentDuration": "3600s", "maxTrialNumber": 6, "maxTrialDuration": 7200,
        "trainingService": {"platform": "kubeflow"}}
    document, problems = kept_config(body)
    assert problems == []
    settings = parse_experiment_config(document, tmp_path, must_exist=False).settings
    assert (settings.max_trial_duration, settings.max_experiment_duration, settings.max_trial_number) == (7200, 3600, 6)
    assert settings.training_service is not None
    assert settings.training_service.platform == "kubeflow"


def errors_or_settings(config: dict[str, Any], folder: Path) -> Any:
    try:
        return parse_experiment_config(config, folder, must_exist=False).settings
    except ConfigInvalid as invalid:
        return [error.message for error in invalid.errors]


def test_what_no_platform_here_can_do_is_named_in_the_old_words(admin, tmp_path: Path) -> None:
    params = v1(tmp_path) | {"trainingServicePlatform": "hybrid", "clusterMetaData": [
        {"key": "hybrid_config", "value": {"trainingServicePlatforms": ["local"]}},
        {"key": "trial_config", "value": "x"}]}
    folder = Kept(tmp_path / "nni" / "hybrid", params).close()
    with pytest.raises(ConfigInvalid) as caught:
        import_archive(read_archive(folder), admin, go_on=True)
    assert {error.field: error.message for error in caught.value.errors}.keys() == {"trainingServicePlatform", "trial"}
    experiment = import_archive(read_archive(folder), admin)
    assert "Imported for viewing only. It cannot continue as it was (trainingServicePlatform: " in experiment.notes[-1]


def test_a_search_for_networks_is_shown(admin, tmp_path: Path) -> None:
    params = {**v3(tmp_path), "tuner": {"name": "PPO"},
              "searchSpace": {"layer": {"_type": "layer_choice", "_value": ["conv", "pool"]}}}
    made = Kept(tmp_path / "nni" / "kEpt1234", params)
    made.trial("aaaaa", 0, 0.25, "SUCCEEDED")
    experiment = import_archive(read_archive(made.close()), admin)
    assert (experiment.search_space, experiment.trials.count()) == (params["searchSpace"], 1)
    assert "If it is resumed, it fails, because its tuner is not on this server." in experiment.notes[-1]


def test_trials_that_had_not_ended_say_so_and_their_final_results_count(admin, tmp_path: Path) -> None:
    made = Kept(tmp_path / "nni" / "kEpt1234", {**v3(tmp_path), "maxTrialNumber": 4})
    given = {"parameter_id": 0, "parameter_source": "algorithm", "parameters": {"x": 0.5}}
    made.event(0, "wwwww", "WAITING", given, 0)
    made.trial("uuuuu", 1, 0.25, "UNKNOWN")
    made.trial("rrrrr", 2, 0.75, "USER_CANCELED")
    made.event(50, "rrrrr", "RUNNING", None, 2)  # resumed by NNI 3.0 under its old id
    made.trial("fffff", 3, 0.9, None)
    made.metric(60, "fffff", "FINAL", 0, "0.9", 3)
    folder = made.close()
    experiment = import_archive(read_archive(folder), admin)
    assert experiment.status == "STOPPED"
    assert [(trial.foreign_id, trial.status, trial.message) for trial in Trial.objects.order_by("sequence_id")] == [
        ("wwwww", "USER_CANCELED", "The trial was still waiting when NNI stopped the experiment."),
        ("uuuuu", "USER_CANCELED",
         "When NNI stopped the experiment, it did not know the state of this trial."),
        ("rrrrr", "USER_CANCELED", "The trial was still running when NNI stopped the experiment."),
        ("fffff", "USER_CANCELED", "The trial was still running when NNI stopped the experiment.")]
    assert [event.data["value"] for event in TunerEvent.objects.order_by("number")] == [None, None, None, 0.9]


def test_without_the_time_of_its_stop_a_trial_ended_with_its_last_sign_of_life(admin, tmp_path: Path) -> None:
    made = Kept(tmp_path / "nni" / "kEpt1234", v3(tmp_path))
    made.trial("aaaaa", 0, 0.25, None)
    made.metric(70, "aaaaa", "PERIODICAL", 1, "0.5", 0)
    made.db.execute("UPDATE ExperimentProfile SET endTime = NULL")
    import_archive(read_archive(made.close()), admin)
    trial = Trial.objects.get()
    assert trial.ended_at is not None
    assert trial.ended_at.timestamp() * 1000 == START + 70_000


@pytest.mark.parametrize("place", ["trials/aaaaa", "environments/remote-worker0/trials/aaaaa"])
def test_collected_output_of_other_machines_is_found(admin, tmp_path: Path, place: str) -> None:
    made = Kept(tmp_path / "nni" / "kEpt1234", v3(tmp_path))
    made.event(0, "aaaaa", "SUCCEEDED", {"parameter_id": 0, "parameters": {"x": 1}}, 0,
               log="file://10.0.0.5:/tmp/nni-experiments/kEpt1234/trials/{}")
    (made.folder / place).mkdir(parents=True)
    (made.folder / place / "stdout_log_collection.log").write_text("from afar\n")
    import_archive(read_archive(made.close()), admin)
    assert bytes(TrialOutput.objects.get().data) == b"from afar\n"


@pytest.mark.parametrize(("trial", "log"), [
    ("../../secret", "file://10.0.0.5:/{}"), ("aaaaa", "/old/place/kEpt1234/../../secret"), ("aaaaa", "file:{secret}"),
    ("aaaaa", "/old/place/kEpt1234/linked"), ("aaaaa", "/old/place/kEpt1234/own")])
def test_no_file_outside_of_the_experiments_folder_is_taken_for_a_log(admin, tmp_path: Path, trial: str,
                                                                      log: str) -> None:
    (tmp_path / "nni").mkdir()
    secret = tmp_path / "nni" / "secret"
    secret.mkdir()
    (secret / "stdout").write_text("of somebody else\n")
    made = Kept(tmp_path / "nni" / "kEpt1234", v3(tmp_path))
    (made.folder / "trials").mkdir()
    (made.folder / "own").mkdir()
    (made.folder / "linked").symlink_to(secret)
    (made.folder / "own" / "stdout").symlink_to(secret / "stdout")
    made.event(0, trial, "SUCCEEDED", {"parameter_id": 0, "parameters": {"x": 1}}, 0,
               log=log.replace("{secret}", str(secret)))
    import_archive(read_archive(made.close()), admin)
    assert Trial.objects.count() == 1
    assert not TrialOutput.objects.exists()


def test_numbers_given_twice_and_events_of_users_are_understood(admin, tmp_path: Path) -> None:
    made = Kept(tmp_path / "nni" / "odd", v3(tmp_path))
    made.trial("aaaaa", 0, 0.25, "SUCCEEDED")
    made.trial("bbbbb", 0, 0.5, "USER_TO_CANCEL")
    made.trial("ccccc", 1, 0.5, "SYS_CANCELED")
    import_archive(read_archive(made.close()), admin)
    assert list(Trial.objects.order_by("sequence_id").values_list("sequence_id", "foreign_id", "status")) == [
        (0, "aaaaa", "SUCCEEDED"), (1, "ccccc", "SYS_CANCELED"), (2, "bbbbb", "USER_CANCELED")]


def test_what_cannot_run_here_any_more_can_still_be_looked_at(admin, tmp_path: Path) -> None:
    gone = v3(tmp_path) | {"tuner": {"name": "PPO", "classArgs": {"optimize_mode": "minimize"}},
                           "trainingService": {"platform": "dlc"}, "trialCodeDirectory": "/gone"}
    made = Kept(tmp_path / "nni" / "gone", gone)
    made.trial("aaaaa", 0, 0.25, "SUCCEEDED")
    folder = made.close()
    experiment = import_archive(read_archive(folder), admin)
    assert (experiment.status, experiment.optimize_mode, experiment.search_space) == ("STOPPED", "minimize", SPACE)
    Experiment.objects.all().update(foreign_id="")
    with pytest.raises(CommandError, match="Without --continue it is imported for viewing only"):
        call_command("import_nni", str(folder), "--continue")


def test_long_logs_keep_their_beginning_and_end(admin, kept: Path) -> None:
    text = b"".join(b"%07d\n" % line for line in range(100_000))
    (kept / "trials" / "aaaaa" / "trial.log").write_bytes(text)
    import_archive(read_archive(kept), admin)
    pieces = list(TrialOutput.objects.filter(stream="stdout").order_by("offset"))
    assert b"".join(bytes(piece.data) for piece in pieces[:4]) == text[:256 * 1024]
    assert b"".join(bytes(piece.data) for piece in pieces[4:]) == text[-256 * 1024:]
    assert sum(piece.skipped for piece in pieces) == len(text) - 512 * 1024


def test_of_huge_logs_only_what_is_kept_is_read(admin, kept: Path) -> None:
    for name, end in (("stdout", b"first"), ("trial.log", b"last")):
        with open(kept / "trials" / "aaaaa" / name, "wb") as log:
            log.seek(32 * 1024 * 1024)
            log.write(end)
    archive = read_archive(kept)
    tracemalloc.start()
    try:
        import_archive(archive, admin)
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024
    finally:
        tracemalloc.stop()
    last = TrialOutput.objects.filter(stream="stdout").latest("offset")
    assert bytes(last.data)[-4:] == b"last"
    assert last.offset + len(last.data) == 64 * 1024 * 1024 + len(b"firstlast")


@pytest.mark.parametrize("go_on", [False, True])
def test_an_import_that_was_killed_in_the_middle_is_not_taken_for_a_whole_one(admin, kept: Path, monkeypatch,
                                                                             go_on: bool) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(importing, "_record_results", kill)
        with pytest.raises(Killed):
            import_archive(read_archive(kept), admin)
    Experiment.objects.update(deleted_at=None)  # who is killed does not write that either
    broken = Experiment.objects.get()
    assert (broken.status, broken.reason) == ("STOPPED", "import_unfinished")
    Experiment.objects.update(tags=["what people write here decides nothing"])
    with pytest.raises(Refused, match="is under way or was interrupted. If no import is under way, delete this"):
        import_archive(read_archive(kept), admin, go_on=go_on, max_trial_number=90)
    with pytest.raises(Refused, match="is under way or was interrupted"):
        intents.resume(broken)
    intents.delete(broken)
    assert import_archive(read_archive(kept), admin).reason == ""


def test_a_second_import_and_other_folders_are_refused_with_a_sentence(admin, kept: Path, tmp_path: Path) -> None:
    import_archive(read_archive(kept), admin)
    with pytest.raises(Refused, match="was already imported as experiment"):
        import_archive(read_archive(kept), admin)
    with pytest.raises(UnreadableArchive, match="it contains no db/nni.sqlite"):
        read_archive(tmp_path)
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "nni.sqlite").write_text("no database at all, but long enough to look like something" * 9)
    with pytest.raises(UnreadableArchive, match="cannot be read as a database of NNI"):
        read_archive(tmp_path)


def test_the_command_goes_on_with_a_larger_limit(admin, kept: Path) -> None:
    out = io.StringIO()
    with pytest.raises(CommandError, match="5 of its 5 trials. To continue, give a larger number"):
        call_command("import_nni", str(kept), "--continue", "--max-trial-number", "5")
    assert not Experiment.objects.exists()
    call_command("import_nni", str(kept), "--continue", "--max-trial-number", "9", stdout=out)
    assert "Trials that had not ended when NNI stopped: 1. They count as canceled" in out.getvalue()
    experiment = Experiment.objects.get()
    assert (experiment.status, experiment.target, experiment.max_trial_number) == ("RUNNING", "RUN", 9)
    assert f"Imported \"kept\", 5 trials, id {experiment.public_id}" in out.getvalue()


def test_one_that_was_imported_to_be_looked_at_goes_on_afterwards(admin, kept: Path) -> None:
    call_command("import_nni", str(kept))
    looked_at = Experiment.objects.get()
    change_and_undo.change(looked_at, {"trial_concurrency": 1, "name": "mine"})
    out = io.StringIO()
    with pytest.raises(CommandError, match="5 of its 5 trials. To continue, give a larger number"):
        call_command("import_nni", str(kept), "--continue", "--max-trial-number", "5")
    call_command("import_nni", str(kept), "--continue", stdout=out)
    assert f"Continuing \"mine\", which was imported as {looked_at.public_id}" in out.getvalue()
    experiment = Experiment.objects.get()
    assert (experiment.public_id, experiment.status, experiment.target) == (looked_at.public_id, "RUNNING", "RUN")
    assert (experiment.trial_concurrency, experiment.name, experiment.max_trial_number) == (1, "mine", 6)
    assert Trial.objects.count() == 5
    with pytest.raises(CommandError, match=f"is experiment {looked_at.public_id}, which is RUNNING already"):
        call_command("import_nni", str(kept), "--continue")


def test_one_whose_folder_was_not_here_when_it_was_imported_goes_on_with_its_own_config(admin, tmp_path: Path) -> None:
    code = tmp_path / "code"
    made = Kept(tmp_path / "nni" / "kEpt1234", {**v3(code), "trialConcurrency": 3})
    made.trial("aaaaa", 0, 0.25, "SUCCEEDED")
    folder = made.close()
    call_command("import_nni", str(folder))
    looked_at = Experiment.objects.get()
    with pytest.raises(CommandError, match="trialCodeDirectory"):
        call_command("import_nni", str(folder), "--continue")
    assert Experiment.objects.get().status == "STOPPED"
    code.mkdir()
    call_command("import_nni", str(folder), "--continue", "--max-trial-number", "50")
    experiment = Experiment.objects.get()
    assert (experiment.status, experiment.max_trial_number) == ("RUNNING", 50)
    assert (experiment.code_folder, experiment.trial_command, experiment.trial_concurrency) == (
        str(code), "python3 trial.py", 3)
    assert not any("for viewing" in note for note in experiment.notes)
    assert (experiment.seed, experiment.tags) == (looked_at.seed, looked_at.tags)


def test_one_that_ran_here_goes_on_again_and_one_that_nni_continued_does_not(admin, kept: Path, make_attempt) -> None:
    experiment = import_archive(read_archive(kept), admin, go_on=True)
    make_attempt(experiment, status="SUCCEEDED")
    Experiment.objects.update(status="DONE", trial_command="python3 other.py")
    with pytest.raises(Refused, match="The experiment has had 6 of its 6 trials"):
        import_archive(read_archive(kept), admin, go_on=True)
    again = import_archive(read_archive(kept), admin, go_on=True, max_trial_number=8)
    assert (again.pk, again.status, again.max_trial_number) == (experiment.pk, "RUNNING", 8)
    assert again.trial_command == "python3 other.py"
    Experiment.objects.update(status="STOPPED")
    with sqlite3.connect(kept / "db" / "nni.sqlite") as db:
        db.execute("UPDATE TrialJobEvent SET event = 'SUCCEEDED' WHERE trialJobId = 'bbbbb' AND event = 'FAILED'")
    db.close()
    with pytest.raises(Refused, match="NNI has continued kEpt1234 since it was imported"):
        import_archive(read_archive(kept), admin, go_on=True, max_trial_number=20)


@pytest.mark.parametrize("params", [
    [1], "text", 5, None, {"maxExecDuration": 1, "clusterMetaData": [7]}, {"maxExecDuration": 1, "clusterMetaData": 3},
    {"maxExecDuration": 1, "tuner": "TPE"}, "[" * 5000 + "]" * 5000, "{", b"\xff",
])
def test_a_config_of_a_wrong_shape_is_answered_with_a_sentence(tmp_path: Path, params: Any) -> None:
    folder = tmp_path / "kEpt1234"
    (folder / "db").mkdir(parents=True)
    with sqlite3.connect(folder / "db" / "nni.sqlite") as db:
        db.execute("CREATE TABLE ExperimentProfile (params text, id text, execDuration integer, startTime integer,"
                   " endTime integer, logDir text, nextSequenceId integer, revision integer)")
        db.execute("CREATE TABLE TrialJobEvent (timestamp integer, trialJobId text, event text, data text, "
                   "logPath text, sequenceId integer)")
        db.execute("CREATE TABLE MetricData (timestamp integer, trialJobId text, parameterId text, type text, "
                   "sequence integer, data text)")
        written = params if isinstance(params, bytes | str) and params != "text" else json.dumps(params)
        db.execute("INSERT INTO ExperimentProfile VALUES (?, 'kEpt1234', 90, ?, ?, '/x', 5, 0)",
                   (written, START, START))
    db.close()
    with pytest.raises(UnreadableArchive, match="cannot be read as (a database|one) of NNI") as refusal:
        read_archive(folder)
    assert not re.search("NoneType|object has no|is not iterable|recursion", str(refusal.value))


@pytest.mark.parametrize("data", ["[" * 5000 + "]" * 5000, "nothing", '[{"parameter": 5, "value": 1}]', "[7]"])
def test_imported_results_of_a_wrong_shape_are_answered_with_a_sentence(kept: Path, data: str) -> None:
    with sqlite3.connect(kept / "db" / "nni.sqlite") as db:
        db.execute("INSERT INTO TrialJobEvent (timestamp, event, data) VALUES (?, 'IMPORT_DATA', ?)", (START, data))
    db.close()
    with pytest.raises(UnreadableArchive, match="TrialJobEvent.data"):
        read_archive(kept)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
@pytest.mark.parametrize(("statement", "text"), [
    ("UPDATE TrialJobEvent SET data = ? WHERE event = 'WAITING'", '{"parameter_id": 0, "parameters": {"x": NUMBER}}'),
    ("INSERT INTO TrialJobEvent (event, timestamp, data) VALUES ('IMPORT_DATA', 1700000000000, ?)",
     '[{"parameter": {"x": NUMBER}, "value": 1}]')])
def test_numbers_that_no_json_has_are_answered_with_a_sentence(admin, kept: Path, statement: str, text: str,
                                                               number: str) -> None:
    with sqlite3.connect(kept / "db" / "nni.sqlite") as db:
        db.execute(statement, (text.replace("NUMBER", number),))
    db.close()
    with pytest.raises(CommandError, match=r"TrialJobEvent\.data( of an import)? has a number that JSON does not"):
        call_command("import_nni", str(kept))
    assert not Experiment.objects.exists()


def test_what_cannot_even_be_shown_is_not_said_to_be_continued(admin, tmp_path: Path) -> None:
    folder = Kept(tmp_path / "kEpt1234", {}).close()
    with pytest.raises(CommandError, match="^The experiment cannot be imported as it is.\n"):
        call_command("import_nni", str(folder))
    with pytest.raises(CommandError, match="^The experiment cannot be continued as it is. Without --continue"):
        call_command("import_nni", str(folder), "--continue")


def test_each_parameter_set_of_a_multi_phase_trial_is_imported_with_its_result(admin, tmp_path: Path) -> None:
    made = Kept(tmp_path / "nni" / "kEpt1234", {**v1(tmp_path), "multiPhase": True})
    for number, (event, index, x) in enumerate((("WAITING", 0, 0.25), ("ADD_HYPERPARAMETER", 1, 0.75),
                                                ("ADD_HYPERPARAMETER", 2, 0.5))):
        made.event(number, "aaaaa", event, {"parameter_id": index, "parameter_source": "algorithm",
                                            "parameters": {"x": x}, "parameter_index": index}, 0)
        made.db.execute("INSERT INTO MetricData VALUES (?, 'aaaaa', ?, 'FINAL', 0, ?)",
                        (START + number * 1000 + 500, str(index), json.dumps(str(x))))
    made.event(9, "aaaaa", "SUCCEEDED", None, 0)
    experiment = import_archive(read_archive(made.close()), admin)
    assert experiment.multi_phase
    trial = Trial.objects.get()
    assert (trial.final_number, trial.result_index, trial.parameter_set_count) == (0.75, 1, 3)
    assert [(row.parameter_id, row.value["x"], row.final_number, row.taught)
            for row in trial.parameter_sets.order_by("index")] == [(0, 0.25, 0.25, True), (1, 0.75, 0.75, True),
                                                                    (2, 0.5, 0.5, True)]
    assert [(event.data["parameters"]["x"], event.data["value"]) for event in TunerEvent.objects.order_by("number")] \
        == [(0.25, 0.25), (0.75, 0.75), (0.5, 0.5)]
    assert experiment.next_ask == 3


def test_results_of_nni_3_stand_beside_the_parameters_that_ran(admin, tmp_path: Path) -> None:
    made = Kept(tmp_path / "nni" / "kEpt1234", v3(tmp_path))
    for sequence, (name, ran) in enumerate((("aaaaa", 1), ("bbbbb", 0))):
        made.event(sequence, name, "RUNNING", {"parameter_id": sequence, "parameter_source": "algorithm",
                                               "parameters": {"x": sequence / 4}, "parameter_index": 0}, sequence)
        made.metric(sequence + 5, name, "FINAL", 0, str(ran / 4), ran)
        made.event(sequence + 6, name, "SUCCEEDED", None, sequence)
    import_archive(read_archive(made.close()), admin)
    assert [(trial.foreign_id, trial.final_number, trial.parameter_sets.get().value)
            for trial in Trial.objects.order_by("sequence_id")] == [("aaaaa", 0.25, {"x": 0.25}),
                                                                    ("bbbbb", 0.0, {"x": 0.0})]
    assert [(event.data["parameters"]["x"], event.data["value"])
            for event in TunerEvent.objects.order_by("number")] == [(0.25, 0.25), (0.0, 0.0)]
    assert "it ran with set 1" in Trial.objects.order_by("sequence_id")[0].events.get().message

"""An experiment whose code is in a Git repository: it waits for it, says so, and begins when it is there."""

from __future__ import annotations

import queue
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nniweb.experiments.actions import intents
from nniweb.experiments.launch import code_archives
from nniweb.experiments.models import Experiment, Trial, TrialParameters
from nniweb.experiments.secrets.sealing import seal
from nniweb.worker.cluster_host.code_fetches import CodeFetches
from tests.fakes.git_server import GitServer
from tests.trialkeeper.keeper_run import wait_until
from trainingservice.kubeflow.config import KubeflowTrialOptions
from trainingservice.platforms import load_platform

#: Seconds: git is several processes, and the machine may be busy.
PATIENCE = 60.0


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings) -> Iterator[GitServer]:
    data = tmp_path / "data"
    data.mkdir()
    settings.DATA_FOLDER = data
    settings.STORAGES = {**settings.STORAGES, "default": {**settings.STORAGES["default"],
                                                          "OPTIONS": {"location": str(data / "files")}}}
    settings.GIT_PRIVATE_ADDRESSES = True
    with GitServer(tmp_path / "git") as server:
        monkeypatch.setenv("GIT_SSL_CAINFO", str(server.certificate))
        yield server


def from_git(rig, url: str, **more) -> Experiment:
    return rig.experiment(code_git={"url": url, "ref": "", "folder": ""}, **more)


def now(experiment: Experiment) -> Experiment:
    return Experiment.objects.select_related("cluster", "code").get(pk=experiment.pk)


def test_it_waits_with_a_sentence_and_starts_with_the_code(rig, server) -> None:
    commit = server.commit("code", {"trial.py": "print(1)", "notes.txt": "x", ".nniignore": "*.txt\n"})
    server.hold = threading.Event()
    experiment = from_git(rig, server.url("code"), code_git_token=seal("sesame"))
    rig.until(lambda: server.requests, PATIENCE)
    waiting = now(experiment)
    assert (waiting.message, waiting.status) == (f"Fetching the code from {server.url('code')}.", "INITIALIZED")
    assert (waiting.reason, waiting.reason_arguments) == ("code_fetching", {"source": server.url("code")})
    assert not Trial.objects.exists()
    server.hold.set()
    rig.until(lambda: now(experiment).code_id is not None, PATIENCE)
    rig.submitted(experiment, 2)
    done = now(experiment)
    assert (done.code_git["commit"], done.code_git_token, done.message) == (commit, None, "")
    assert (done.reason, done.reason_arguments) == ("", {})
    assert done.code is not None
    with tarfile.open(code_archives.local_path(done.code)) as archive:
        assert sorted(archive.getnames()) == [".nniignore", "trial.py"]
    assert list((code_archives.settings.DATA_FOLDER / "fetches").iterdir()) == []
    assert done.events.filter(kind="code fetched", message__contains=commit).exists()


def test_roles_with_folders_of_their_own_find_them_in_the_repository(rig, server, monkeypatch) -> None:
    monkeypatch.setattr(load_platform(rig.cluster.platform), "options_model", KubeflowTrialOptions)
    server.commit("code", {"src/learn/train.py": "1", "serve/serve.py": "2", "notes.txt": "x"})
    roles = {"worker": {"codeDirectory": "src/learn"}, "ps": {"codeDirectory": "serve", "command": "sleep 600"}}
    experiment = from_git(rig, server.url("code"), trial_options=roles)
    rig.until(lambda: now(experiment).code_id is not None, PATIENCE)
    with tarfile.open(code_archives.local_path(now(experiment).code)) as archive:
        assert sorted(archive.getnames()) == ["ps", "ps/serve.py", "worker", "worker/train.py"]
    roles["ps"]["codeDirectory"] = "nowhere"
    lacking = from_git(rig, server.url("code"), trial_options=roles)
    rig.until(lambda: now(lacking).status == "ERROR", PATIENCE)
    assert "has no folder nowhere, which ps.codeDirectory names" in now(lacking).message


@pytest.mark.parametrize("folder", ["leak", "leak/clusters", "serve/up", "../serve", "serve/../.."])
def test_a_role_gets_no_folder_outside_of_the_repository(rig, server, monkeypatch, folder) -> None:
    monkeypatch.setattr(load_platform(rig.cluster.platform), "options_model", KubeflowTrialOptions)
    server.commit("code", {"learn/train.py": "1", "serve/serve.py": "2"},
                  links={"leak": str(code_archives.settings.DATA_FOLDER), "serve/up": "../.."})
    roles = {"worker": {"codeDirectory": "learn"}, "ps": {"codeDirectory": folder, "command": "sleep 600"}}
    experiment = from_git(rig, server.url("code"), trial_options=roles)
    rig.until(lambda: now(experiment).status == "ERROR", PATIENCE)
    assert now(experiment).code_id is None
    assert "ps.codeDirectory" in now(experiment).message or "leak" in now(experiment).message


def test_it_fails_with_git_s_own_words_and_tries_again_when_resumed(rig, server) -> None:
    experiment = from_git(rig, server.url("later"))
    rig.until(lambda: now(experiment).status == "ERROR", PATIENCE)
    message = now(experiment).message
    assert f"could not be fetched from {server.url('later')}. git says:" in message
    assert "not found" in message
    assert now(experiment).reason == "code_not_fetched"
    server.commit("later", {"trial.py": "print(1)"})
    intents.resume(now(experiment))
    rig.until(lambda: now(experiment).code_id is not None, PATIENCE)
    rig.submitted(experiment, 1)
    assert now(experiment).status == "RUNNING"


def test_code_that_is_too_much_to_ship_fails_the_experiment(rig, server) -> None:
    server.commit("many", {f"f{index}": "" for index in range(2001)})
    experiment = from_git(rig, server.url("many"))
    rig.until(lambda: now(experiment).status == "ERROR", PATIENCE)
    message = now(experiment).message
    assert "2001 files" in message
    assert str(code_archives.settings.DATA_FOLDER) not in message


def test_one_that_is_stopped_while_it_waits_starts_nothing(rig, server) -> None:
    server.commit("code", {"trial.py": "print(1)"})
    server.hold = threading.Event()
    experiment = from_git(rig, server.url("code"))
    rig.until(lambda: server.requests, PATIENCE)
    intents.stop(now(experiment))
    rig.until(lambda: now(experiment).status == "STOPPED", PATIENCE)
    server.hold.set()
    rig.until(lambda: now(experiment).code_id is not None, PATIENCE)
    rig.rounds()
    assert (now(experiment).status, Trial.objects.count()) == ("STOPPED", 0)


TRAIN = '"""@nni.variable(nni.choice(1, 2), name=x)"""\nx = 0\n'
SPACE = {"train/x/choice": {"_type": "choice", "_value": [1, 2]}}


def test_one_person_has_one_fetch_at_a_time_and_holds_up_nobody_else() -> None:
    fetches, go = CodeFetches(lambda: None), threading.Event()
    begun: queue.SimpleQueue[str] = queue.SimpleQueue()

    def fetch(name: str) -> Callable[[threading.Event], Callable[[], None]]:
        def work(stop: threading.Event) -> Callable[[], None]:
            begun.put(name)
            go.wait(PATIENCE)
            return lambda: ended.append(name)
        return work

    ended: list[str] = []
    for number in range(4):
        fetches.start(Experiment(pk=number, owner_id=1), fetch(f"silent {number}"))
    fetches.start(Experiment(pk=9, owner_id=2), fetch("another's"))
    assert {begun.get(timeout=PATIENCE) for _ in range(2)} == {"silent 0", "another's"}
    go.set()
    wait_until(lambda: fetches.collect() or len(ended) == 2)
    fetches.start(Experiment(pk=1, owner_id=1), fetch("silent 1"))
    assert begun.get(timeout=PATIENCE) == "silent 1"
    fetches.close()


def annotated(rig, server, files: dict[str, str], **more) -> Experiment:
    server.commit("annotated", files)
    return from_git(rig, server.url("annotated"), search_space={}, config={"useAnnotation": True, "searchSpace": {}},
                    **more)


def test_annotations_in_it_make_the_search_space_and_are_carried_out(rig, server) -> None:
    experiment = annotated(rig, server, {"train.py": TRAIN, "data.txt": "x"})
    rig.until(lambda: now(experiment).code_id is not None, PATIENCE)
    rig.submitted(experiment, 2)
    done = now(experiment)
    assert (done.search_space, done.config) == (SPACE, {"useAnnotation": True, "searchSpace": SPACE})
    assert {key for row in TrialParameters.objects.all() for key in row.value} == set(SPACE)
    assert done.code is not None
    with tarfile.open(code_archives.local_path(done.code)) as archive:
        source = archive.extractfile("train.py")
        assert source is not None
        assert b"get_current_parameter" in source.read()


@pytest.mark.parametrize(("text", "tuner", "words"), [
    (TRAIN.replace("x = 0", "y = 0"), "Random", "train.py, line 1: the annotation is for x"),
    ("x = 0\n", "Random", "no Python file of the code has an annotation"),
    (TRAIN.replace("choice(1, 2)", "uniform(2, 1)"), "Random", "train.py, line 1: train/x/uniform._value[1]: the high"),
    (TRAIN, "BatchTuner", "train.py, line 1: train/x/choice")])
def test_annotations_that_cannot_be_used_end_the_experiment_with_their_line(rig, server, text, tuner, words) -> None:
    experiment = annotated(rig, server, {"train.py": text}, tuner={"name": tuner})
    rig.until(lambda: now(experiment).status == "ERROR", PATIENCE)
    ended = now(experiment)
    assert ended.reason == "annotations_invalid"
    assert words in ended.message
    assert str(code_archives.settings.DATA_FOLDER) not in ended.message
    server.commit("annotated", {"train.py": TRAIN})
    Experiment.objects.filter(pk=experiment.pk).update(tuner={"name": "Random"})
    intents.resume(ended)
    rig.until(lambda: now(experiment).code_id is not None, PATIENCE)
    rig.submitted(experiment, 1)
    assert now(experiment).search_space == SPACE

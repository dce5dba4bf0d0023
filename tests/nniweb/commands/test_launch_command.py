"""``manage.py launch``."""

import io
import os
import shutil
import socket
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from nniweb.experiments.config import parse_experiment_config
from nniweb.experiments.launch.launch_shell import with_shell
from nniweb.experiments.models import Cluster, Experiment, User, Worker
from nniweb.management.following import Follower
from nniweb.process.process_identity import host_name
from nniweb.storage.own_files import COMMAND
from nniweb.tuning.custom_algorithms.module_search import module_folders
from tests.fakes.python_environments import make_environment, shell_with
from trainingservice.local.shell import shell_variables

CONFIG = """\
searchSpaceFile: search_space.json
trialCommand: "true"
trialConcurrency: 1
tuner: {name: Random}
trainingService: {platform: local, reuseMode: true}
"""


@pytest.fixture
def config(tmp_path: Path, settings) -> Path:
    settings.DATA_FOLDER = tmp_path / "data"
    settings.DATA_FOLDER.mkdir()
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "search_space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    (folder / "config.yml").write_text(CONFIG)
    return folder / "config.yml"


def run(*arguments: object) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("launch", *map(str, arguments), stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


@pytest.mark.django_db
def test_a_code_folder_whose_name_is_not_utf_8_is_refused_with_a_sentence(config: Path, admin_user: User) -> None:
    config.write_text(CONFIG.replace("searchSpaceFile: search_space.json",
                                     "searchSpace: {x: {_type: uniform, _value: [0, 1]}}"))
    folder = config.parent.rename(os.fsdecode(os.fsencode(config.parent.parent) + b"/caf\xe9"))
    with pytest.raises(CommandError, match="trialCodeDirectory: .* is not UTF-8"):
        run(folder / "config.yml")
    assert not Experiment.objects.exists()


def test_a_file_is_launched_for_the_first_administrator(config, admin) -> None:
    out, err = run(config)
    experiment = Experiment.objects.get()
    assert experiment.owner == admin
    assert experiment.code_folder == str(config.parent)
    assert experiment.public_id in out.splitlines()[0]
    assert out.splitlines()[1] == f"http://127.0.0.1:8080/experiments/{experiment.public_id}/"
    assert "Note: " in out
    assert "No worker is alive" in err


def test_the_owner_can_be_named(config, admin) -> None:
    User.objects.create_superuser("other", role="admin")
    run(config, "--user", "other")
    assert Experiment.objects.get().owner.username == "other"
    with pytest.raises(CommandError, match='no user named "nobody"'):
        run(config, "--user", "nobody")


def test_at_a_terminal_too_a_folder_that_holds_the_data_folder_is_no_code_and_one_beside_it_is(config, admin) -> None:
    text = config.read_text()
    (config.parent.parent / "config.yml").write_text(text.replace("searchSpaceFile: ", "searchSpaceFile: experiment/"))
    with pytest.raises(CommandError, match="trialCodeDirectory: .* contains the data folder of the server"):
        run(config.parent.parent / "config.yml")
    assert not Experiment.objects.exists()
    (config.parent.parent / "config.yml").write_text(
        text.replace("searchSpaceFile: ", "searchSpaceFile: experiment/") + "trialCodeDirectory: experiment\n")
    run(config.parent.parent / "config.yml")
    assert Experiment.objects.get().code_folder == str(config.parent)


def test_without_an_administrator_it_says_what_makes_one(config, db) -> None:
    with pytest.raises(CommandError, match="make run"):
        run(config)


def test_what_is_wrong_is_told_with_file_and_line_and_nothing_is_created(config, admin) -> None:
    config.write_text(CONFIG.replace("trialConcurrency: 1", "trialConcurrency: 0\ncolour: red"))
    with pytest.raises(CommandError) as caught:
        run(config)
    assert caught.value.returncode == 1
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert any(line.startswith(f"{config}: line 3, column") and "trialConcurrency" in line for line in lines)
    assert not Experiment.objects.exists()


def test_a_file_that_is_not_there_gets_a_sentence(tmp_path, admin) -> None:
    with pytest.raises(CommandError, match="cannot be read: No such file"):
        run(tmp_path / "none.yml")
    (tmp_path / "bad.yml").write_bytes(b"\xff")
    with pytest.raises(CommandError, match="UTF-8"):
        run(tmp_path / "bad.yml")


def test_a_refused_launch_is_told(config, admin) -> None:
    member = User.objects.create_user("alice", role="member")
    with pytest.raises(CommandError, match="ask an administrator"):
        run(config, "--user", member.username)


@pytest.mark.parametrize("status", [1, 2, 3])
def test_following_ends_with_the_followers_status(config, admin, monkeypatch, status) -> None:
    monkeypatch.setattr(Follower, "follow", lambda self: status)
    with pytest.raises(SystemExit) as caught:
        run(config, "--follow")
    assert caught.value.code == status


def test_ctrl_c_leaves_the_experiment_running_and_says_so(config, admin, monkeypatch, capsys) -> None:
    def interrupted(self: Follower) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(Follower, "follow", interrupted)
    out = io.StringIO()
    with pytest.raises(SystemExit) as caught:
        call_command("launch", str(config), "--follow", stdout=out, stderr=io.StringIO())
    assert caught.value.code == 130
    experiment = Experiment.objects.get()
    assert experiment.target == "RUN"
    assert f"continues. `{COMMAND} experiments show {experiment.public_id}`" in out.getvalue()


def test_following_to_done_is_no_error(config, admin, monkeypatch) -> None:
    from nniweb.experiments.launch import launching

    Worker.objects.create(id="w", host="box", pid=1, started_at=timezone.now(),
                          heard_at=timezone.now() + timedelta(hours=1))
    create = launching._create

    def done_at_once(*arguments):
        experiment = create(*arguments)
        Experiment.objects.update(status="DONE")
        return experiment

    monkeypatch.setattr(launching, "_create", done_at_once)
    out, err = run(config, "--follow")
    assert "DONE  0 ended" in out
    assert err == ""


def test_the_code_may_be_in_a_git_repository(config, admin, tmp_path) -> None:
    inline = CONFIG.replace("searchSpaceFile: search_space.json", "searchSpace: {x: {_type: uniform, _value: [0, 1]}}")
    config.write_text(inline)
    (tmp_path / "token").write_text("sesame\n")
    out, _ = run(config, "--git", "https://git.example/code.git", "--git-ref", "main", "--git-token-file",
                 tmp_path / "token")
    experiment = Experiment.objects.get()
    assert experiment.code_git == {"url": "https://git.example/code.git", "ref": "main", "folder": ""}
    assert (experiment.code_folder, experiment.waits_for_code) == ("", True)
    assert "sesame" not in out
    with pytest.raises(CommandError, match="git_url: must begin with https"):
        run(config, "--git", "file:///etc")


# --- the Python of the shell ------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path: Path, monkeypatch) -> Path:
    """A virtual environment that is active here."""
    environment = make_environment(tmp_path / "env", "mylib")
    for name, value in shell_with(environment).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    return environment


def recorded(experiment: Experiment) -> object:
    return experiment.trial_options.get("shellEnvironment")


def test_the_environment_of_the_shell_is_recorded_with_the_experiment(config, admin, shell, monkeypatch) -> None:
    before = os.environ["PATH"]
    monkeypatch.chdir(shell)
    monkeypatch.setenv("PATH", f"tools:{before}")
    run(config)
    experiment = Experiment.objects.get()
    assert recorded(experiment) == {"path": f"{shell}/tools:{before}", "virtualEnv": str(shell), "condaPrefix": ""}
    assert experiment.config["trainingService"]["shellEnvironment"] == recorded(experiment)
    assert experiment.config_text == config.read_text()


@pytest.mark.parametrize("more", ["environment: {PATH: /usr/bin:/bin}",
                                  "trainingService: {platform: local, shellEnvironment: {path: '/usr/bin:/bin'}}"])
def test_what_the_file_says_of_the_path_has_the_last_word(config, admin, shell, more) -> None:
    config.write_text(CONFIG.replace("trainingService: {platform: local, reuseMode: true}\n", "") + more
                      + ("\n" if "trainingService" in more else "\ntrainingService: {platform: local}\n"))
    run(config)
    assert str(shell) not in str(Experiment.objects.get().trial_options)


def test_experiments_of_platforms_elsewhere_do_not_have_it(config, admin, shell, settings) -> None:
    parsed = parse_experiment_config(CONFIG.replace("{platform: local, reuseMode: true}",
                                                    "{platform: slurm, workingFolder: /s}"), config.parent)
    assert with_shell(parsed, admin, shell_variables()) == parsed


def test_who_may_not_run_trials_here_chooses_no_python_either(config, member_without_right, shell) -> None:
    parsed = parse_experiment_config(CONFIG, config.parent)
    assert with_shell(parsed, member_without_right, shell_variables()) == parsed
    member_without_right.local_users = "*"
    assert with_shell(parsed, member_without_right, shell_variables()) != parsed


@pytest.fixture
def member_without_right(db) -> User:
    return User.objects.create_user("alice", role="member")


def test_on_a_cluster_of_another_machine_it_is_not_used_and_a_note_says_so(config, admin, shell) -> None:
    for name, host in (("here", socket.gethostname()), ("there", "another-host")):
        Cluster.objects.create(name=name, platform="local", pinned_host=host, settings={})
        parsed = parse_experiment_config(CONFIG.replace("trainingService: {platform: local, reuseMode: true}",
                                                        f"cluster: {name}"), config.parent)
        found = with_shell(parsed, admin, shell_variables())
        is_used = found.settings.trial_options is not None and "shellEnvironment" in str(
            found.settings.trial_options.canonical())
        assert is_used == (name == "here")
        notes = [note for note in found.notes if "do not get the environment of this shell" in note]
        assert len(notes) == (name == "there")


def test_a_shell_with_a_path_out_of_bounds_is_told_so(config, admin, shell, monkeypatch) -> None:
    monkeypatch.setenv("PATH", ":".join([os.environ["PATH"], *["/" + "a" * 200] * 200]))
    with pytest.raises(CommandError, match="The environment of the shell cannot be recorded: path"):
        run(config)


def test_an_environment_that_is_gone_is_refused_before_anything_is_created(config, admin, shell) -> None:
    shutil.rmtree(shell / "bin")
    with pytest.raises(CommandError, match="was active in the shell that launched the experiment, and has no Python"):
        run(config)
    assert not Experiment.objects.exists()


def test_modules_that_the_script_imports_and_the_interpreter_does_not_have_are_told(config, admin, shell) -> None:
    (config.parent / "train.py").write_text("import mylib\nimport absent_one\n")
    config.write_text(CONFIG.replace('"true"', "python3 train.py"))
    out, _ = run(config)
    [note] = [line for line in out.splitlines() if "absent_one" in line]
    assert note.startswith(f"Note: Trials run with {shell}/bin/python3 (Python {sys.version.split()[0]})")
    assert "absent_one (train.py, line 2)" in note
    assert "mylib" not in note
    assert note.removeprefix("Note: ") in Experiment.objects.get().notes
    told = io.StringIO()
    call_command("config", "check", str(config), stdout=io.StringIO(), stderr=told)
    assert note in told.getvalue()


def worker_that_knows(platforms: list[str] | None) -> None:
    now = timezone.now()
    Worker.objects.create(id="one", host="box", pid=1, started_at=now, heard_at=now + timedelta(hours=1),
                          platforms=platforms)


def test_a_platform_that_only_the_shell_knows_is_refused_with_how_to_give_it_to_the_server(
        config: Path, admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    target = "trainingservice.testing.scripted:ScriptedTrainingService"
    monkeypatch.setenv("NNIWEB_EXTRA_PLATFORMS", f"scripted={target}")
    config.write_text(CONFIG.replace("platform: local, reuseMode: true", "platform: scripted"))
    worker_that_knows(["local", "remote"])
    with pytest.raises(CommandError) as refused:
        run(config)
    assert str(refused.value) == (
        f"{config}: trainingService.platform: The running server does not have the platform \"scripted\". It is known "
        "only where this launch was checked. Install its package in the Python environment of the server, or start the "
        f"server with NNIWEB_EXTRA_PLATFORMS=scripted={target}. Then restart the server.")
    assert not Experiment.objects.exists()
    assert not Cluster.objects.exists()
    Worker.objects.update(platforms=["local", "scripted"])
    run(config)


@pytest.mark.parametrize("platforms", [None, ["local"]])
def test_what_a_worker_knows_or_does_not_tell_is_no_obstacle(config: Path, admin: User, platforms: list[str] | None
                                                             ) -> None:
    worker_that_knows(platforms)
    run(config)
    assert Experiment.objects.get().cluster.platform == "local"


def test_a_platform_under_nnis_name_is_asked_of_the_workers_under_its_own(config: Path, admin: User) -> None:
    config.write_text(CONFIG.replace("platform: local, reuseMode: true", (
        'platform: pai, host: "127.0.0.1:9", username: u, token: t, dockerImage: i')))
    worker_that_knows(["local"])
    with pytest.raises(CommandError, match='does not have the platform "openpai"'):
        run(config)


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tuner that is registered, and whose module is in a folder of this shell's."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "tuner_of_this_shell.py").write_text(
        "class Mine:\n    def generate_parameters(self, parameter_id, **kwargs):\n        return {'x': 0}\n")
    monkeypatch.setenv("NNI_CONFIG_DIR", str(tmp_path / "nni"))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    (tmp_path / "meta.yml").write_text(
        "algoType: tuner\nbuiltinName: mine\nclassName: tuner_of_this_shell.Mine\n")
    call_command("algo", "register", str(tmp_path / "meta.yml"), stdout=io.StringIO())
    return folder


def worker_that_finds(folders: list[str] | None, host: str = "") -> None:
    Worker.objects.all().delete()
    now = timezone.now()
    Worker.objects.create(id="one", host=host or host_name(), pid=1, started_at=now,
                          heard_at=now + timedelta(hours=1), module_folders=folders)


def test_a_registered_algorithm_that_only_the_shell_finds_is_refused_with_what_to_do(
        config: Path, admin: User, registered: Path) -> None:
    config.write_text(CONFIG.replace("Random", "mine"))
    server = [folder for folder in module_folders() if folder != str(registered)]
    worker_that_finds(server)
    with pytest.raises(CommandError) as refused:
        run(config)
    assert str(refused.value) == (
        f"{config}: tuner.name: The running server does not find the module tuner_of_this_shell of mine, which is "
        "registered with the class tuner_of_this_shell.Mine. It is known only where this launch was checked. Install "
        "it in the Python environment of the server, or start the server with the module's folder in PYTHONPATH.")
    assert not Experiment.objects.exists()
    worker_that_finds([*server, str(registered)])
    run(config)
    assert Experiment.objects.get().tuner["class_name"] == "tuner_of_this_shell.Mine"


def test_a_class_of_no_folder_that_only_the_shell_finds_is_refused_too(config: Path, admin: User, registered: Path
                                                                       ) -> None:
    config.write_text(CONFIG.replace("name: Random", "className: tuner_of_this_shell.Mine"))
    worker_that_finds([])
    with pytest.raises(CommandError, match=r"tuner.className: The running server does not find the module "
                                           r"tuner_of_this_shell of tuner_of_this_shell.Mine. It is known only"):
        run(config)


@pytest.mark.parametrize(("folders", "host"), [(None, ""), ([], "another")])
def test_a_worker_elsewhere_and_one_that_does_not_say_what_it_finds_are_no_obstacle(
        config: Path, admin: User, registered: Path, folders: list[str] | None, host: str) -> None:
    config.write_text(CONFIG.replace("Random", "mine"))
    worker_that_finds(folders, host)
    run(config)
    assert Experiment.objects.exists()

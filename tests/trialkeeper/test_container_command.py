"""What podman and docker are asked for, as words: nothing is started."""

import os
import subprocess

import pytest

from trialkeeper.container_command import (
    CannotMount,
    Devices,
    Mount,
    engine_environment,
    environment_inside,
    gpus_inside,
    mounts_of,
    run_command,
    start_script,
)
from trialkeeper.container_engine import find_engine

NVIDIA, AMD = Devices(True), Devices(False, ["/dev/kfd", "/dev/dri"])


def words(engine="podman", rootless=False, network="private", **more):
    container = {"image": "localhost/train:1", "engine": engine, "program": f"/usr/bin/{engine}", "rootless": rootless,
                 "network": network}
    given = {"name": "nniweb-j1", "mark": "j1", "labels": {"nniweb.job": "tabc"}, "mounts": [Mount("/a"), Mount(
        "/b", True)], "script": "/a/start.sh", "user": "1000:1001", "gpus": None, "devices": NVIDIA}
    return run_command(container, **{**given, **more})


def after(found, flag):
    return [found[place + 1] for place, word in enumerate(found) if word == flag]


def test_the_command_of_podman():
    assert words() == [
        "/usr/bin/podman", "run", "--rm", "--name", "nniweb-j1", "--pull", "never", "--log-driver", "none",
        "--user", "0:0", "--cap-drop", "all", "--security-opt", "no-new-privileges",
        "--security-opt", "label=disable", "--workdir", "/", "--entrypoint", "/bin/sh",
        "--env", "NNI_KEEPER_ATTEMPT=j1", "--env", "NNI_KEEPER_CONTAINER=j1", "--label", "nniweb.job=tabc",
        "--mount", "type=bind,source=/a,target=/a", "--mount", "type=bind,source=/b,target=/b,readonly",
        "localhost/train:1", "/a/start.sh"]


@pytest.mark.parametrize(("engine", "rootless", "user"), [
    ("podman", True, "0:0"), ("podman", False, "0:0"), ("docker", True, "0:0"), ("docker", False, "1000:1001")])
def test_nobody_becomes_root_of_the_machine_by_a_daemon_of_root_s(engine, rootless, user):
    assert after(words(engine, rootless), "--user") == [user]


def test_nothing_makes_a_container_wider_than_it_has_to_be():
    for found in (words(), words("docker"), words(network="host", gpus=["0"])):
        assert not {"--privileged", "--cap-add", "--volume", "-v", "--pid", "--ipc", "--volumes-from"} & set(found)
        assert after(found, "--cap-drop") == ["all"]


@pytest.mark.parametrize(("network", "said"), [("private", []), ("host", ["host"]), ("none", ["none"])])
def test_the_network_is_as_said(network, said):
    assert after(words(network=network), "--network") == said


def test_limits_are_passed_on_and_swap_is_no_way_around_them():
    found = words(cpus=1.5, memory=512 * 1024 ** 2, shared_memory=4096)
    assert after(found, "--cpus") == ["1.5"]
    assert after(found, "--memory") == after(found, "--memory-swap") == ["536870912b"]
    assert after(found, "--shm-size") == ["4096b"]
    assert not {"--cpus", "--memory", "--shm-size"} & set(words())


def test_gpus_are_named_by_cdi_for_podman_by_gpus_for_docker_and_by_files_where_they_are_amd_s():
    assert after(words(gpus=["0", "2"]), "--device") == ["nvidia.com/gpu=0", "nvidia.com/gpu=2"]
    assert after(words("docker", gpus=["0", "2"]), "--gpus") == ['"device=0,2"']
    assert after(words(gpus=["1"], devices=AMD), "--device") == ["/dev/kfd", "/dev/dri"]
    for gpus in (None, []):
        assert not {"--device", "--gpus"} & set(words(gpus=gpus))


def test_inside_gpus_of_nvidia_are_counted_from_zero():
    assert gpus_inside(["2", "MIG-1/2"], NVIDIA) == ["0", "1"]
    assert gpus_inside(["2", "5"], AMD) == ["2", "5"]
    assert (gpus_inside([], NVIDIA), gpus_inside(None, NVIDIA)) == ([], None)


@pytest.mark.parametrize("path", ["/a,b", '/a"b', "/a\nb"])
def test_a_path_that_would_be_read_as_an_option_is_refused(path):
    with pytest.raises(CannotMount, match="cannot be mounted"):
        words(mounts=[Mount(path)])


def test_a_trial_sees_its_own_files_and_not_its_keeper_s_journal_and_token(tmp_path):
    folder = tmp_path / "attempt"
    modules = folder / "for_trials"
    modules.mkdir(parents=True)
    (tmp_path / "package").mkdir()
    (modules / "nni").symlink_to(tmp_path / "package")
    (tmp_path / "real").mkdir()
    (tmp_path / "code").symlink_to(tmp_path / "real")
    found = mounts_of(str(folder), working_directory=str(tmp_path / "code"), nni_folder=f"{folder}/nni",
                      checkpoints=f"{folder}/checkpoints", wake=f"{folder}/wake", for_trials=str(modules))
    assert [mount.path for mount in found if not mount.read_only] == [
        f"{tmp_path}/real", f"{tmp_path}/code", f"{folder}/nni", f"{folder}/container", f"{folder}/checkpoints",
        f"{folder}/wake"]
    assert [mount.path for mount in found if mount.read_only] == [str(modules), f"{tmp_path}/package"]
    assert str(folder) not in [mount.path for mount in found]


def test_modules_in_an_archive_are_brought_with_the_archive(tmp_path):
    (tmp_path / "keeper.pyz").write_bytes(b"")
    found = mounts_of("/x", working_directory="/x/code", nni_folder="/x/nni", checkpoints=None, wake=None,
                      for_trials=f"{tmp_path}/keeper.pyz/for_trials")
    assert found[-1] == Mount(f"{tmp_path}/keeper.pyz", True)


@pytest.mark.parametrize("folder", ["/", "/usr", "/etc/"])
def test_code_that_would_hide_a_folder_of_the_image_is_refused(folder):
    with pytest.raises(CannotMount, match="would hide that folder of the image"):
        mounts_of("/x", working_directory=folder, nni_folder="/x/nni", checkpoints=None, wake=None, for_trials=None)


def run_script(tmp_path, command, environment, **more):
    code = tmp_path / "the code"
    code.mkdir(exist_ok=True)
    (tmp_path / "container").mkdir(exist_ok=True)
    text = start_script(command, environment, folder=str(tmp_path), working_directory=str(code), **{
        "for_trials": None, **more})
    return subprocess.run(["/bin/sh"], input=text, capture_output=True, text=True, env={
        "PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": "/of/image"})


def test_the_script_gives_the_command_its_variables_whatever_is_in_them(tmp_path):
    value = "a'b \"c\"\n$HOME `id` \\"
    done = run_script(tmp_path, "printf %s \"$VALUE\"; pwd; exit 125", {"VALUE": value})
    assert done.stdout == f"{value}{tmp_path}/the code\n"
    assert (done.returncode, (tmp_path / "container" / "exit_code").read_text()) == (125, "125\n")
    assert (tmp_path / "container" / "began").exists()


def test_a_home_that_cannot_be_written_is_replaced_and_python_s_path_is_added_to(tmp_path):
    done = run_script(tmp_path, "echo $HOME $PYTHONPATH", {}, for_trials="/modules")
    assert done.stdout == f"{tmp_path}/container/home /of/image:/modules\n"


def test_a_folder_that_is_not_there_is_not_run_in(tmp_path):
    text = start_script("echo ran", {}, folder=str(tmp_path), working_directory="/nonexistent/code", for_trials=None)
    (tmp_path / "container").mkdir()
    done = subprocess.run(["/bin/sh"], input=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (73, "")


def test_inside_the_image_s_path_holds_unless_the_experiment_gives_one():
    environment = {"PATH": "/usr/bin", "PYTHONPATH": "/given:/modules", "A": "1"}
    assert environment_inside(environment, {}, False) == {"A": "1"}
    assert environment_inside(environment, {"PYTHONPATH": "/given"}, True) == {
        "A": "1", "PATH": "/usr/bin", "PYTHONPATH": "/given"}


def test_the_engine_s_program_gets_none_of_the_trial_s_variables_and_no_token():
    inherited = {"PATH": "/bin", "DOCKER_HOST": "unix:///x", "XDG_RUNTIME_DIR": "/run/user/1", "NNI_KEEPER_TOKEN": "t",
                 "LD_PRELOAD": "/evil.so", "AWS_SECRET_ACCESS_KEY": "k"}
    assert engine_environment(inherited, "j1") == {
        "PATH": "/bin", "DOCKER_HOST": "unix:///x", "XDG_RUNTIME_DIR": "/run/user/1", "NNI_KEEPER_ATTEMPT": "j1"}


def test_podman_is_taken_before_docker_and_a_named_one_alone(tmp_path):
    def put(name):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)

    assert find_engine("auto", str(tmp_path)) is None
    put("docker")
    assert find_engine("auto", str(tmp_path)) == ("docker", f"{tmp_path}/docker")
    assert find_engine("podman", str(tmp_path)) is None
    put("podman")
    assert find_engine("auto", str(tmp_path)) == ("podman", f"{tmp_path}/podman")
    assert find_engine("docker", str(tmp_path)) == ("docker", f"{tmp_path}/docker")

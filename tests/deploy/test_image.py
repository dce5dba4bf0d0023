"""The image that docs/deploy/containers describes: built by podman, run with a read-only root, upgraded, ended."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.container_engine import ContainerEngine
from tests.deploy.our_image import BASE
from tests.end_to_end.installation.test_upgrade_of_releases import rows
from tests.trialkeeper.keeper_run import wait_until
from tests.upgrade_assets.unpacked_asset import DATABASE, RELEASES, unpack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

#: Megabytes that the image adds to its base (in which the programs of Debian are, in these tests). It has 491.
MOST_MEGABYTES = 550
#: As the documentation says: nothing of the container can be written to but /data and a temporary folder.
AS_LITTLE_AS_POSSIBLE = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--init",
                         "--network=host")
PORT = 8080
PATIENCE = 600.0


class Container:
    """A container of the image that serves, on loopback in the network of the tests."""

    def __init__(self, engine: ContainerEngine, image: str, *options: str, command: tuple[str, ...] = ()) -> None:
        self.engine = engine
        self.id = engine.podman("run", "--detach", *AS_LITTLE_AS_POSSIBLE, *options, image, *command).stdout.strip()

    def get(self, path: str, *headers: str) -> tuple[int, str]:
        return self.engine.get(f"http://127.0.0.1:{PORT}{path}", headers)

    def wait_until_ready(self) -> None:
        wait_until(lambda: self.get("/readyz")[0] == 200 or self.has_ended(), PATIENCE, "it is ready")
        assert self.get("/readyz")[0] == 200, self.engine.logs(self.id)

    def has_ended(self) -> bool:
        return str(self.engine.inspect("container", self.id)["State"]["Status"]) == "exited"

    def run(self, *command: str) -> str:
        return self.engine.podman("exec", self.id, *command).stdout

    def stop(self) -> tuple[int, float]:
        """Send TERM, as every orchestrator does; the exit status, and how many seconds the end took."""
        began = time.monotonic()
        self.engine.podman("stop", "--time", "60", self.id)
        return int(self.engine.inspect("container", self.id)["State"]["ExitCode"]), time.monotonic() - began

    def remove(self) -> None:
        self.engine.podman("rm", "--force", "--time", "0", self.id, check=False)


@pytest.fixture
def start(engine: ContainerEngine, image: str) -> Iterator[Callable[..., Container]]:
    containers: list[Container] = []

    def start(*options: str, command: tuple[str, ...] = ()) -> Container:
        containers.append(Container(engine, image, *options, command=command))
        return containers[-1]
    yield start
    for container in containers:
        container.remove()


@pytest.fixture
def volume(engine: ContainerEngine) -> Iterator[str]:
    name = engine.podman("volume", "create").stdout.strip()
    yield name
    engine.podman("volume", "rm", "--force", name, check=False)


def test_the_image_is_small_and_its_user_has_no_rights(engine: ContainerEngine, image: str) -> None:
    its, base = engine.inspect("image", image), engine.inspect("image", BASE)
    assert (its["User"], its["Config"]["Cmd"]) == ("nniweb", ["python", "-m", "nniweb", "serve"])
    added = (its["Size"] - base["Size"]) / 1e6
    assert added < MOST_MEGABYTES
    said = engine.podman("run", "--rm", *AS_LITTLE_AS_POSSIBLE, image, "sh", "-c",
                         "id; touch /home/nniweb/a /opt/nniweb/a /etc/a; touch /data/a /tmp/a && echo can; "
                         "grep CapEff /proc/self/status; find / -xdev -user 1000 -not -path '/proc/*'", check=False)
    assert said.stdout.splitlines()[0] == "uid=1000(nniweb) gid=1000(nniweb) groups=1000(nniweb)"
    assert said.stderr.count("Read-only file system") >= 3
    assert "CapEff:\t0000000000000000" in said.stdout


def test_the_image_holds_the_wheel_and_nothing_else_of_the_checkout(engine: ContainerEngine, image: str) -> None:
    def run(command: str) -> list[str]:
        done = engine.podman("run", "--rm", "--network=none", image, "sh", "-c", command, check=False)
        return done.stdout.split("\n")
    assert run("ls -d /source /dist /data/* /home/nniweb/* 2>/dev/null") == [""]
    packages = "/opt/nniweb/lib/*/site-packages"
    assert run(f"cd {packages} && ls -d nniweb trainingservice trialkeeper tests docs scripts 2>/dev/null") == [
        "nniweb", "trainingservice", "trialkeeper", ""]
    assert run("pip check") == ["No broken requirements found.", ""]
    for program in ("nniweb --version", "pg_dump --version", "pg_restore --version", "git --version"):
        assert run(program)[0].startswith(program.split()[0]), program
    assert run("ssh -V 2>&1")[0].startswith("OpenSSH_")


def rows_of(container: Container, path: str, token: str) -> list[dict[str, Any]]:
    """Of a list of the REST interface."""
    status, body = container.get(f"/api/v1/{path}", token)
    assert status == 200, body
    return list(json.loads(body)["results"])


def test_it_serves_with_a_read_only_root_runs_trials_ends_at_term_and_comes_back(
        start: Callable[..., Container], volume: str) -> None:
    first = start("--volume", f"{volume}:/data")
    first.wait_until_ready()
    assert first.get("/healthz")[0] == 200
    for path in ("/sign-in/", "/docs/gpus.html", "/static/echarts/echarts.min.js"):
        assert first.get(path)[0] == 200, path
    assert f"http://127.0.0.1:{PORT}/sign-in/" in first.run("nniweb", "sign-in-link")
    token = f"Authorization: Token {first.run('nniweb', 'token').strip()}"
    # the demo: its trials run in the container, which has no folder to write to but the volume
    [demo] = wait_until(lambda: rows_of(first, "experiments/", token), PATIENCE, "the demo is launched")
    wait_until(lambda: rows_of(first, f"experiments/{demo['id']}/trials/?status=SUCCEEDED", token), PATIENCE,
               "a trial of the demo succeeds")
    status, seconds = first.stop()
    assert (status, seconds < 35) == (0, True), first.engine.logs(first.id)
    assert "Stopping. Running trials continue" in first.engine.logs(first.id)

    second = start("--volume", f"{volume}:/data")  # another container with the same volume
    second.wait_until_ready()
    assert [row["id"] for row in rows_of(second, "experiments/", token)] == [demo["id"]]
    assert second.stop()[0] == 0


def test_without_a_volume_that_can_be_written_it_says_so_and_ends(start: Callable[..., Container],
                                                                  engine: ContainerEngine) -> None:
    container = start("--tmpfs", "/data:mode=0500")
    wait_until(container.has_ended, PATIENCE, "it ends")
    assert "NNIWEB_DATA" in engine.logs(container.id)
    assert engine.inspect("container", container.id)["State"]["ExitCode"] != 0


@pytest.mark.parametrize("release", RELEASES)
def test_the_data_folder_of_a_release_is_migrated_once_and_nothing_is_lost(
        release: str, engine: ContainerEngine, image: str, start: Callable[..., Container], tmp_path: Path) -> None:
    data = unpack(release, tmp_path / "before")
    subprocess.run(["chown", "-R", "1000:1000", str(tmp_path / "before")], check=True)
    before = rows(data / DATABASE)
    options = ("--volume", f"{tmp_path / 'before'}:{tmp_path / 'before'}", "--env", f"NNIWEB_DATA={data}", "--env",
               "NNIWEB_DEMO=0")
    said = engine.podman("run", "--rm", *AS_LITTLE_AS_POSSIBLE, *options, image, "nniweb", "migrate").stdout
    assert "The database now has the version of NNI Web" in said
    assert before == rows(data / DATABASE, {name: of for name, (of, _) in before.items()})
    [backup] = (data / "backups").iterdir()
    assert str(backup) in said
    for _ in range(2):
        container = start(*options)
        container.wait_until_ready()
        assert container.stop()[0] == 0
    assert list((data / "backups").iterdir()) == [backup], "it was migrated once"

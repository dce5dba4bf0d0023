"""docs/deploy/containers/compose.yml, brought up by podman-compose as its README says: all services, away and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.deploy.composition import HOST, PATIENCE, UP, Composition
from tests.deploy.container_engine import ContainerEngine
from tests.deploy.images_of_servers import MACHINE, PASSWORD, USER, make_server_images
from tests.trialkeeper.keeper_run import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

#: The services that are away for a while, each during a trial of its own.
AWAY = ("nniweb-web", "nniweb-worker", "nniweb-postgresql", "nniweb-redis")
#: A trial that waits for a file, so that a test decides when it ends, and reports before and after.
TRIAL = """
import pathlib, time, nni
nni.get_next_parameter()
number = nni.get_sequence_id()
nni.report_intermediate_result(number + 0.125)
while not pathlib.Path.home().joinpath(f"go-{number}").exists():
    time.sleep(0.2)
nni.report_intermediate_result(number + 0.25)
nni.report_final_result(number + 0.5)
pathlib.Path.home().joinpath(f"done-{number}").touch()
"""
CONFIG = f"""
experimentName: goes on
trialCommand: python3 trial.py
trialCodeDirectory: .
searchSpace: {{x: {{_type: uniform, _value: [0, 1]}}}}
trialConcurrency: 1
maxTrialNumber: {1 + len(AWAY)}
tuner: {{name: Random}}
trainingService:
  platform: remote
  machineList: [{{host: ada, user: {USER}, password: {PASSWORD}}}]
"""


class SearchOnAMachine:
    """An experiment whose trials run on a machine with nothing but sshd and Python, beside the services."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        # the README's first command; it makes the first administrator
        assert f"https://{HOST}/sign-in/" in composition.within("nniweb-web", "nniweb", "sign-in-link")
        self.token = composition.within("nniweb-web", "nniweb", "token").strip()
        [network] = composition.engine.inspect("container", composition.containers("nniweb-worker")[0])[
            "NetworkSettings"]["Networks"]
        self.machine = composition.engine.podman("run", "--detach", "--init", "--name=ada", "--hostname=ada",
                                                 f"--network={network}", MACHINE).stdout.strip()
        line = 'mkdir /tmp/code && printf %s "$1" > /tmp/code/trial.py && printf %s "$2" > /tmp/code/config.yml'
        composition.within("nniweb-web", "sh", "-c", line, "sh", TRIAL, CONFIG)
        composition.within("nniweb-web", "nniweb", "launch", "/tmp/code/config.yml")
        [experiment] = composition.rows("experiments/", self.token)
        self.id = experiment["id"]

    def trials(self) -> list[dict[str, Any]]:
        """The oldest first."""
        return sorted(self.composition.rows(f"experiments/{self.id}/trials/", self.token),
                      key=lambda trial: int(trial["sequence_id"]))

    def statuses(self) -> list[str]:
        return [trial["status"] for trial in self.trials()]

    def wait_until_running(self, number: int) -> None:
        """And its first result is there."""
        wait_until(lambda: [(trial["status"], trial["intermediate_count"]) for trial in self.trials()[number:]]
                   == [("RUNNING", 1)], PATIENCE, f"trial {number} runs")

    def at_machine(self, *command: str) -> bool:
        return self.composition.engine.podman("exec", self.machine, *command, check=False).returncode == 0

    def end_trial(self, number: int) -> None:
        """Returns when its program has reported everything."""
        assert self.at_machine("touch", f"/home/{USER}/go-{number}")
        wait_until(lambda: self.at_machine("test", "-e", f"/home/{USER}/done-{number}"), PATIENCE, "it reports")


@pytest.fixture(scope="module")
def composition(engine: ContainerEngine, image: str, tmp_path_factory: pytest.TempPathFactory
                ) -> Iterator[Composition]:
    """All services, ready."""
    folder = tmp_path_factory.mktemp("compose")
    made = Composition(engine, folder)
    make_server_images(engine, folder / "servers")
    engine.podman("tag", image, f"localhost/{made.document['x-nniweb']['image']}")
    try:
        made.run(*UP)
        made.wait_until_ready()
        yield made
    finally:
        engine.podman("rm", "--force", "--time", "0", "ada", check=False)
        made.run("down", "--volumes", "--timeout", "0", check=False)


def test_all_services_are_there_and_people_reach_them_by_tls(composition: Composition) -> None:
    for service, count in (("nniweb-web", 2), ("nniweb-worker", 2), ("nniweb-postgresql", 1), ("nniweb-redis", 1)):
        assert len(composition.containers(service)) == count
    [migrate] = composition.containers("nniweb-migrate")
    state = composition.engine.inspect("container", migrate)["State"]
    assert (state["Running"], state["ExitCode"]) == (False, 0)
    assert composition.get("/sign-in/")[0] == 200
    assert composition.get("/metrics")[0] == 404, "the proxy does not forward it"
    assert composition.engine.get("http://127.0.0.1/sign-in/", [f"Host: {HOST}"])[0] == 301
    token = (composition.folder / "secrets" / "metrics-token").read_text()
    for web in composition.containers("nniweb-web"):
        wait_until(lambda web=web: "nniweb_workers 2.0" in composition.at_own_address(
            web, 8080, "/metrics", f"Host: {HOST}", f"Authorization: Bearer {token}")[1], PATIENCE,
            "both workers are heard")


def test_our_containers_can_write_to_their_volume_and_a_temporary_folder_only(composition: Composition) -> None:
    for service in ("nniweb-web", "nniweb-worker"):
        name = composition.containers(service)[0]
        tried = composition.engine.podman("exec", name, "sh", "-c", "id -u; touch /opt/nniweb/a /home/nniweb/a; "
                                          "touch /data/nniweb/a /tmp/a && rm /data/nniweb/a && echo can", check=False)
        assert tried.stdout.split() == ["1000", "can"]
        assert tried.stderr.count("Read-only file system") == 2


def test_trials_end_and_none_is_lost_while_each_service_is_away_and_nothing_is_after_down(
        composition: Composition) -> None:
    search = SearchOnAMachine(composition)
    search.wait_until_running(0)
    search.end_trial(0)
    wait_until(lambda: search.statuses()[0] == "SUCCEEDED", PATIENCE, "a trial succeeds")

    for number, service in enumerate(AWAY, start=1):
        search.wait_until_running(number)
        composition.run("stop", service)
        search.end_trial(number)
        composition.run("start", service)
        if service == "nniweb-web":  # as the README says: they have other addresses
            composition.run("restart", "nniweb-proxy")
        composition.wait_until_ready()
        wait_until(lambda number=number: search.statuses()[number:number + 1] == ["SUCCEEDED"], PATIENCE,
                   f"the trial that ended without {service} succeeds")

    wait_until(lambda: composition.rows("experiments/", search.token)[0]["status"] == "DONE", PATIENCE, "it is done")
    ended = search.trials()
    assert [(trial["final_number"], trial["intermediate_count"], trial["attempt"]) for trial in ended] \
        == [(number + 0.5, 2, 1) for number in range(1 + len(AWAY))]

    search.composition.engine.podman("rm", "--force", "--time", "0", search.machine)
    composition.run("down")
    assert [name for service in composition.document["services"] for name in composition.containers(service)] == []
    volumes = composition.engine.podman("volume", "ls", "--quiet").stdout.split()
    assert {"nniweb_data", "nniweb_database"} <= set(volumes), "what they had is kept"

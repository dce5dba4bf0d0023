"""The wheel in an environment of its own, started in an empty folder: a server, its pages, its client."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.end_to_end.running_server import ROOT, RunningServer
from tests.installed.wheel_build import make_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: What somebody does from a script: launch, follow, read results, fetch a file that was kept.
SCRIPT = """
import sys
from nniweb.client import Client, Refused

client = Client()
seen = []
experiment = client.launch("config.yml", progress=lambda sent, total: seen.append(sent / total))
assert seen[-1] == 1, seen
changes = []
experiment.wait(120, on_change=lambda now: changes.append(now.status))
assert (experiment.status, changes[-1]) == ("DONE", "DONE"), (experiment.status, experiment.message)
trials = experiment.trials("status = SUCCEEDED")
assert len(trials) == 4
best = experiment.best_trial()
assert best.final_value == min(trial["final_value"] for trial in trials)
assert {"learning_rate", "momentum", "start"} == set(best.parameters)
curves = [record for record in experiment.metrics() if record["kind"] == "PERIODICAL"]
assert len(curves) == 40
assert "step 10: height" in best.output()
[kept] = best.files()
assert best.download(kept["name"], "kept-here.txt").read_text() == "kept\\n"
try:
    client.launch("wrong.yml")
except Refused as error:
    assert error.errors[0].field == "trialConcurrency", error.errors
else:
    raise AssertionError("it was launched")
unwanted = [name for name in ("django", "nniweb.settings") if name in sys.modules]
assert not unwanted, unwanted
print("whole")
"""


class InstalledServer(RunningServer):
    """The program ``nniweb`` of an environment, with the data folder that it takes by itself."""

    def __init__(self, folder: Path, environment: Path) -> None:
        super().__init__(folder / "share" / "nniweb", env={"NNIWEB_DEMO": "1"}, starts_empty=True)
        self.working_directory = folder / "empty"
        self.working_directory.mkdir()
        self.program = (str(environment / "bin" / "nniweb"),)

    @property
    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in super().environment.items()
               if name not in ("NNIWEB_DATA", "NNIWEB_CODE_ROOTS", "NNIWEB_EXTRA_PLATFORMS", "PYTHONPATH",
                               "VIRTUAL_ENV")}
        return {**own, "XDG_DATA_HOME": str(self.data_folder.parent), "HOME": str(self.working_directory.parent)}

    def command(self, program: Sequence[str]) -> list[str]:
        return [*self.program, "serve"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    return make_environment(tmp_path_factory.mktemp("installed"), wheel)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> Iterator[InstalledServer]:
    server = InstalledServer(tmp_path_factory.mktemp("anywhere"), environment)
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The quadratic example with few trials, each of which leaves a file to keep; and a file that is wrong."""
    work = tmp_path / "work"
    shutil.copytree(ROOT / "examples" / "quadratic", work)
    config = (work / "config.yml").read_text().replace("maxTrialNumber: 200", 'maxTrialNumber: 4\nkeepFiles: ["*.txt"]')
    (work / "config.yml").write_text(config.replace("python3 trial.py", "python3 trial.py && echo kept > kept.txt"))
    (work / "wrong.yml").write_text(config.replace("trialConcurrency: 8", "trialConcurrency: 0"))
    return work


def python(environment: Path, script: str, server: RunningServer, work: Path) -> str:
    done = subprocess.run([environment / "bin" / "python", "-c", script], cwd=work, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=180, check=False,
                          env={"PATH": "/usr/bin:/bin", "HOME": str(work), "NNIWEB_SERVER": server.url,
                               "NNIWEB_TOKEN": server.token})
    assert done.returncode == 0, f"{done.stdout}\n{server.log_tail()}"
    return done.stdout


def test_started_in_an_empty_folder_it_serves_its_pages_and_runs_the_demo(server: InstalledServer) -> None:
    assert list(server.working_directory.iterdir()) == []
    assert (server.data_folder / "nniweb.sqlite3").is_file()
    server.wait_until(lambda: "Sign in with this link" in server.log_file.read_text(), what="the link is printed")
    demo = server.wait_until(lambda: server.get("experiments/")["results"], what="the demo is launched")
    assert demo[0]["name"] == "quadratic"  # scikit-learn is not installed here
    for path in ("/static/css/nniweb.css", "/static/echarts/echarts.min.js", "/static/swagger-ui/swagger-ui-bundle.js",
                 "/docs/gpus.html", "/sign-in/"):
        answer = server.request("GET", path)
        assert answer.ok, f"{path}: {answer.status_code}"
        assert len(answer.content) > 1000
    assert "nniweb sign-in-link" in server.request("GET", "/sign-in/").text


def test_a_script_launches_follows_reads_results_and_fetches_a_kept_file(server: InstalledServer, environment: Path,
                                                                         work: Path) -> None:
    assert python(environment, SCRIPT, server, work) == "whole\n"
    assert (work / "kept-here.txt").read_text() == "kept\n"


def test_where_only_the_client_is_wanted_few_packages_will_do(server: InstalledServer, wheel: Path, work: Path,
                                                                tmp_path: Path) -> None:
    [needs] = {line for line in (ROOT / "docs" / "client.md").read_text().splitlines()
               if "pip install requests" in line}
    names = needs.partition("pip install requests")[2].partition("`")[0].split()
    small = make_environment(tmp_path, wheel, ["requests", *names])
    assert python(small, SCRIPT, server, work) == "whole\n"
    serve = subprocess.run([small / "bin" / "nniweb", "serve"], capture_output=True, text=True, check=False)
    assert serve.returncode == 1
    assert serve.stderr.startswith("nniweb serve needs django, which is not installed. Install the whole")


def test_commands_of_the_server_use_its_data_folder_from_anywhere(server: InstalledServer) -> None:
    assert server.manage("--version").stdout.startswith("nniweb 0.")
    assert server.manage("experiments", "list").stdout.startswith("ID ")
    assert list(server.working_directory.iterdir()) == []

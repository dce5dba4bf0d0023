"""The tools of agents with a real server: over HTTP where it is switched on, and on stdio with a program of its own."""

import asyncio
import importlib.util
import os
import re
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

if importlib.util.find_spec("mcp") is None:
    pytest.skip("the package mcp is missing: pip install -r requirements/mcp.txt", allow_module_level=True)

import httpx2
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.end_to_end.running_server import ROOT, RunningServer

Value = TypeVar("Value")
AGENT = ROOT / "examples" / "agent" / "agent.py"
SPACE = {"x": {"_type": "uniform", "_value": [-5, 5]}}
CONFIG: dict[str, Any] = {
    "searchSpace": SPACE, "trialCommand": "python3 trial.py", "trialConcurrency": 2, "maxTrialNumber": 4,
    "tuner": {"name": "External", "classArgs": {"optimize_mode": "minimize"}}, "trainingService": {"platform": "local"}}
TRIAL = ("import nni\nx = nni.get_next_parameter()['x']\nprint('at', x)\nassert x > -4, 'outside of the world'\n"
         "nni.report_final_result(x ** 2)\n")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path_factory.mktemp("mcp") / "data", {"NNIWEB_MCP": "1"})
    try:
        yield running.start()
    finally:
        running.close()


def environment(server: RunningServer) -> dict[str, str]:
    """Of a program that finds the server and a token there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_"))}
    return {**kept, "PYTHONPATH": str(ROOT), "NNIWEB_SERVER": server.url, "NNIWEB_TOKEN": server.token}


def over_http(server: RunningServer, do: Callable[[Client], Awaitable[Value]]) -> Value:
    async def run() -> Value:
        headers = {"Authorization": f"Bearer {server.token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=120, trust_env=False) as http, Client(
                streamable_http_client(f"{server.url}/mcp/", http_client=http)) as client:  # type: ignore[arg-type]
            return await do(client)

    return asyncio.run(run())


def on_stdio(server: RunningServer, do: Callable[[Client], Awaitable[Value]]) -> Value:
    async def run() -> Value:
        program = StdioServerParameters(command=sys.executable, args=[str(ROOT / "manage.py"), "mcp"],
                                        env=environment(server), cwd=ROOT)
        async with Client(program) as client:
            return await do(client)

    return asyncio.run(run())


async def answer(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    return found


@pytest.mark.slow
@pytest.mark.parametrize("transport", [over_http, on_stdio])
def test_an_agent_launches_proposes_waits_and_reads_why_a_trial_failed(transport: Callable[..., Any],
                                                                        server: RunningServer) -> None:
    async def search(client: Client) -> None:
        wish: dict[str, Any] = {"config": CONFIG, "files": {"trial.py": TRIAL}, "key": transport.__name__}
        assert (await answer(client, "launch", **wish))["experiment"] is None
        experiment = (await answer(client, "launch", **wish, dry_run=False))["experiment"]
        points = [{"parameters": {"x": x}, "key": f"p{x}"} for x in (-4.5, -1.0, 2.0, 3.0)]
        await answer(client, "propose", experiment=experiment, proposals=points, dry_run=False)
        ended: list[Any] = []
        cursor: dict[str, str] = {}
        while True:
            news = await answer(client, "wait", experiment=experiment, seconds=30, **cursor)
            ended += news["results"]
            cursor = {"cursor": news["cursor"]}
            if news["has_ended"] and not news["has_more"]:
                break
        assert sorted((result["key"], result["value"]) for result in ended if result["value"] is not None) == [
            ("p-1.0", 1.0), ("p2.0", 4.0), ("p3.0", 9.0)]
        seen = await answer(client, "inspect_experiment", experiment=experiment)
        [cause] = seen["failures"]
        log = await answer(client, "tail_log", trial=cause["trial_id"], stream="stderr")
        assert "outside of the world" in log["text"]
        table = await answer(client, "results", experiment=experiment, columns=["value", "parameters.x"], limit=2)
        assert table["rows"] == [[1.0, -1.0], [4.0, 2.0]]
        assert (await client.read_resource("nniweb://skill")).contents[0].text.startswith("---\nname: nniweb-search")

    transport(server, search)


@pytest.mark.slow
def test_the_program_says_what_is_missing(server: RunningServer, tmp_path: Path) -> None:
    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in environment(server).items() if not name.startswith("NNIWEB_")}
        return subprocess.run([sys.executable, str(ROOT / "manage.py"), "mcp"], cwd=ROOT, text=True,
                              env={**kept, "HOME": str(tmp_path), **variables}, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=60, check=False)

    nowhere = run(NNIWEB_DATA=str(tmp_path), NNIWEB_TOKEN="x")
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert "No server was given" in nowhere.stderr
    without = run(NNIWEB_SERVER=server.url)
    assert without.returncode == 1
    assert "There is no token in" in without.stderr
    own = run(NNIWEB_DATA=str(server.data_folder), NNIWEB_TOKEN=server.token)
    assert (own.returncode, own.stderr) == (0, "")


def agent(server: RunningServer, folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, str(AGENT), str(folder), *arguments], text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(server))


def run_as_the_readme_says(folder: Path, address: str, token: str) -> subprocess.CompletedProcess[str]:
    """The commands of the example's README, typed in its folder; only address and token are others."""
    [commands] = re.findall(r"^    export .*\n(?:    .*\n)+", (AGENT.parent / "README.md").read_text(), re.MULTILINE)
    secret = folder / "agent-token"
    secret.write_text(token)
    secret.chmod(0o600)
    for there, here in (("http://127.0.0.1:8080", address), ("~/.config/nniweb/agent-token", str(secret))):
        assert there in commands
        commands = commands.replace(there, here)
    assert "../../.venv/bin/python agent.py" in commands
    if not (ROOT / ".venv" / "bin" / "python").exists():  # as where the packages are the machine's own
        commands = commands.replace("../../.venv/bin/python", sys.executable)
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("NNIWEB_", "DJANGO_", "PYTHON"))}
    return subprocess.run(["bash", "-e", "-c", commands], cwd=AGENT.parent, env=kept, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=120, check=False)


@pytest.mark.slow
def test_the_command_of_the_examples_readme_reaches_the_server_from_a_checkout(server: RunningServer, tmp_path: Path
                                                                               ) -> None:
    reader = server.post("tokens/", {"name": "reader", "scope": "read"})["token"]
    reached = run_as_the_readme_says(tmp_path, server.url, reader)
    assert (reached.returncode, reached.stdout) == (1, "")
    assert reached.stderr.splitlines()[-1].endswith("has the scope read and cannot launch anything.")
    assert "Traceback" not in reached.stderr


@pytest.mark.slow
def test_an_agent_that_cannot_reach_the_server_says_so_without_a_traceback(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        refused = run_as_the_readme_says(tmp_path, f"http://127.0.0.1:{held.getsockname()[1]}", "x" * 40)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Traceback" not in refused.stderr
    assert len(refused.stderr.splitlines()) <= 3, refused.stderr
    without = subprocess.run([sys.executable, str(AGENT), "x"], env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
                             capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    assert (without.returncode, without.stdout) == (1, "")
    assert "Traceback" not in without.stderr
    assert "What it said stands above." in without.stderr


def killed_after(server: RunningServer, folder: Path, ended: int, *arguments: str) -> None:
    """An agent that is killed when so many trials have ended."""
    program = agent(server, folder, *arguments)
    try:
        server.wait_until(lambda: sum(
            experiment["progress"]["ended"] for experiment in server.get_all("experiments/", q="agent: ")) >= ended
            or program.poll() is not None, what=f"{ended} trials have ended")
        assert program.poll() is None, program.communicate()[0]
    finally:
        program.kill()
        program.communicate()


def assert_each_proposal_ran_once(server: RunningServer, count: int) -> None:
    [experiment] = server.get_all("experiments/", q="agent: ")
    trials = server.get_all(f"experiments/{experiment['id']}/trials/")
    assert (experiment["status"], len(trials)) == ("DONE", count)
    told = server.get(f"experiments/{experiment['id']}/results/")["results"]
    assert sorted(result["key"] for result in told) == sorted(f"point-{number}" for number in range(count))
    first = [trial["final_number"] for trial in trials[:6]]
    assert experiment["progress"]["best_value"] <= min(first)


@pytest.mark.slow
def test_the_agent_of_the_example_goes_on_after_it_was_killed(server: RunningServer) -> None:
    leash = ("--trials", "8", "--key", "small")
    killed_after(server, ROOT / "examples" / "quadratic", 2, *leash)
    again = agent(server, ROOT / "examples" / "quadratic", *leash)
    said, _ = again.communicate(timeout=180)
    assert again.returncode == 0, said
    assert "DONE: {'SUCCEEDED': 8}" in said
    assert_each_proposal_ran_once(server, 8)
    done = agent(server, ROOT / "examples" / "quadratic", *leash)
    said, _ = done.communicate(timeout=180)
    assert done.returncode == 0, said
    assert "it has ended already; another --key begins another search" in said
    assert said.splitlines()[-1].startswith(("DONE: {'SUCCEEDED': 8}, best ", "the best "))


@pytest.mark.slow
def test_the_agent_makes_a_hundred_trials_through_three_kills_of_it_and_one_of_the_server(
        make_server: Callable[..., RunningServer]) -> None:
    own = make_server({"NNIWEB_MCP": "1"}, name="hundred").start()
    leash = ("--trials", "100", "--url", f"{own.url}/mcp/")
    for ended in (10, 40, 70):
        killed_after(own, ROOT / "examples" / "quadratic", ended, *leash)
    own.kill()
    own.start()
    last = agent(own, ROOT / "examples" / "quadratic", *leash)
    said, _ = last.communicate(timeout=400)
    assert last.returncode == 0, said
    assert_each_proposal_ran_once(own, 100)
    assert own.request("POST", "/mcp/", json={}).status_code == 400


@pytest.mark.slow
def test_the_agent_improves_the_digits_and_keeps_to_its_leash(make_server: Callable[..., RunningServer]) -> None:
    own = make_server({"NNIWEB_MCP": "1"}, name="digits").start()
    program = agent(own, ROOT / "examples" / "digits", "--trials", "16", "--patches", str(AGENT.parent / "patches"))
    said, _ = program.communicate(timeout=500)
    assert program.returncode == 0, said
    [experiment] = own.get_all("experiments/", q="agent: ")
    trials = own.get_all(f"experiments/{experiment['id']}/trials/")
    assert len(trials) == 16
    assert "is not used" not in said
    assert len({trial["variant"]["sha256"] for trial in trials if trial["variant"]}) > 1
    assert max(trial["final_number"] for trial in trials) >= max(trial["final_number"] for trial in trials[:6])
    short = agent(own, ROOT / "examples" / "digits", "--trials", "50", "--hours", "0.0001", "--key", "short")
    said, _ = short.communicate(timeout=200)
    assert short.returncode == 0, said
    assert "the leash of 0.0001 hours ends here" in said

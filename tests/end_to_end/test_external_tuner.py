"""Programs that search through a server: those of docs/external-tuner.md and docs/code-variants.md, with the files
that stand there.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.running_server import ROOT, RunningServer


def pieces(page: str) -> list[str]:
    """Config, script and program, as a page has them."""
    return re.findall(r"^<!-- run -->\n```(?:yaml|python)\n(.*?\n)```$", (ROOT / "docs" / page).read_text(),
                      re.MULTILINE | re.DOTALL)


CONFIG, TRIAL, PROGRAM = pieces("external-tuner.md")


def surroundings(server: RunningServer, folder: Path) -> dict[str, str]:
    """Of a program that finds server, token and package as the pages say."""
    secret = folder / "token"
    secret.write_text(server.token)
    secret.chmod(0o600)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_"))}
    return {**kept, "PYTHONPATH": str(ROOT), "NNIWEB_SERVER": server.url, "NNIWEB_TOKEN_FILE": str(secret)}


@pytest.mark.slow
def test_the_program_of_the_page_finds_each_result_once_though_the_server_is_killed(running_server: RunningServer,
                                                                                   tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text(CONFIG)
    (tmp_path / "trial.py").write_text(TRIAL)
    with open(tmp_path / "told", "w") as told:
        program = subprocess.Popen(
            [sys.executable, "-u", "-c", PROGRAM], cwd=tmp_path, stdout=told, stderr=subprocess.PIPE, text=True,
            env=surroundings(running_server, tmp_path))
        try:
            running_server.wait_until(lambda: "point-2" in (tmp_path / "told").read_text(), what="results are read")
            running_server.kill()
            running_server.start()
            _, errors = program.communicate(timeout=180)
        finally:
            program.kill()
    assert program.returncode == 0, errors
    results = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    [experiment] = running_server.get_all("experiments/")
    trials = running_server.get_all(f"experiments/{experiment['id']}/trials/")
    assert (experiment["status"], len(trials)) == ("DONE", 12)
    assert {line[0] for line in results} <= {f"point-{number}" for number in range(12)}
    assert len({line[0] for line in results}) == len(results)
    assert {trial["status"] for trial in trials} == {"SUCCEEDED"}


@pytest.mark.slow
def test_the_program_of_the_page_about_changes_runs_the_changed_code(running_server: RunningServer, tmp_path: Path
                                                                     ) -> None:
    config, script, program = pieces("code-variants.md")
    code = tmp_path / "code"
    code.mkdir()
    (code / "config.yml").write_text(config)
    (code / "train.py").write_text(script)
    ran = subprocess.run([sys.executable, "-c", program], cwd=code, env=surroundings(running_server, tmp_path),
                         capture_output=True, text=True, timeout=180, check=False)
    assert ran.returncode == 0, ran.stderr
    assert '+best = {"sgd": 0.04, "adam": 0.001}[optimizer]' in ran.stdout
    [experiment] = running_server.get_all("experiments/")
    running_server.wait_until(lambda: running_server.get(f"experiments/{experiment['id']}/")["progress"]["ended"] == 4,
                              what="the rerun has ended")
    trials = sorted(running_server.get_all(f"experiments/{experiment['id']}/trials/"),
                    key=lambda trial: trial["sequence_id"])
    assert [trial["final_number"] for trial in trials] == pytest.approx([0.991, 0.981, 0.97, 0.991])
    assert [(ROOT / "docs" / "code-variants.md").read_text().count(f'{side}optimizer = \\"{name}\\"\\n')
            for side, name in (("-", "sgd"), ("+", "adam"))] == [1, 1]

"""A program that searches through a server: the one of docs/external-tuner.md, as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.end_to_end.running_server import ROOT, RunningServer

[PROGRAM] = re.findall(r"^<!-- run -->\n```python\n(.*?)\n```$", (ROOT / "docs" / "external-tuner.md").read_text(),
                       re.MULTILINE | re.DOTALL)
CONFIG = """
tuner: {name: External}
searchSpace: {x: {_type: uniform, _value: [-5, 5]}}
trialCommand: python3 trial.py
trialConcurrency: 4
trialCodeDirectory: .
trainingService: {platform: local}
"""
TRIAL = "import nni\nnni.report_final_result(nni.get_next_parameter()['x'] ** 2)\n"


def test_the_program_of_the_page_finds_each_result_once_though_the_server_is_killed(running_server: RunningServer,
                                                                                   tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text(CONFIG)
    (tmp_path / "trial.py").write_text(TRIAL)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_"))}
    with open(tmp_path / "told", "w") as told:
        program = subprocess.Popen(
            [sys.executable, "-u", "-c", PROGRAM], cwd=tmp_path, stdout=told, stderr=subprocess.PIPE, text=True, env={
                **kept, "PYTHONPATH": str(ROOT), "NNIWEB_SERVER": running_server.url,
                "NNIWEB_TOKEN": running_server.token})
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

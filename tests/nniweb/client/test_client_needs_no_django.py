"""The client and its commands work where neither Django nor the settings can be loaded."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.http_double import Answer, HttpDouble, Request

ROOT = Path(__file__).resolve().parents[3]
REFUSE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("django", "rest_framework", "pydantic", "optuna", "pandas", "channels"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
"""


def python(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", REFUSE + text], cwd=ROOT, text=True, capture_output=True, timeout=60,
                          check=False)


def test_the_client_imports_nothing_of_the_server() -> None:
    done = python("import nniweb.client, nniweb.client.commands\n"
                  "print(sorted(name for name in sys.modules if name.startswith('nniweb')))")
    assert done.returncode == 0, done.stderr
    loaded = eval(done.stdout)
    assert "nniweb.settings" not in loaded
    assert not [name for name in loaded if name.startswith(("nniweb.api", "nniweb.experiments", "nniweb.worker"))]


def test_the_program_speaks_with_another_server_without_them() -> None:
    done = python("from nniweb.command_line.program import main\n"
                  "main(['nniweb', 'experiments', 'list', '--server', 'ftp://nowhere'])")
    assert done.returncode == 1
    assert done.stderr.strip().startswith("ftp://nowhere is not the address of a server. Write an address such as")


@pytest.mark.slow
def test_without_pandas_records_are_dictionaries_and_a_table_says_what_is_missing() -> None:
    done = python("from nniweb.client import Records\n"
                  "records = Records([{'x': 1}])\n"
                  "print(records, records._repr_html_())\n"
                  "records.dataframe()")
    assert done.stdout == "[{'x': 1}] None\n"
    assert "ClientError: pandas is not installed. Install it with pip install pandas" in done.stderr


class NoExperiments(HttpDouble):
    """A server that has none."""

    def answer(self, request: Request) -> Answer:
        return Answer(200, {"count": 0, "next": None, "results": []})


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_commands_do_their_work_without_an_output(closed: str) -> None:
    command = f"{shlex.quote(sys.executable)} manage.py"
    server = NoExperiments()
    server.start()
    environment = {**os.environ, "NNIWEB_SERVER": server.address, "NNIWEB_TOKEN": "t"}
    try:
        for arguments, status in (("--version", 0), ("experiments list", 0), ("experiments list --server ftp://x", 1)):
            done = subprocess.run(f"{command} {arguments} {closed}", shell=True, cwd=ROOT, env=environment,
                                  capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == status, (arguments, done)
            assert "Traceback" not in done.stderr
        assert [request.path for request in server.requests] == ["/api/v1/experiments/"]
    finally:
        server.close()


class AwayAtFirst(NoExperiments):
    """A server that cannot answer the first request."""

    def answer(self, request: Request) -> Answer:
        return Answer(503, {}) if len(self.requests) == 1 else super().answer(request)


def test_commands_do_their_work_and_fail_as_they_do_where_nobody_reads_what_went_wrong() -> None:
    server = AwayAtFirst()
    server.start()
    reading, unread = os.pipe()
    os.close(reading)
    environment = {**os.environ, "NNIWEB_SERVER": server.address, "NNIWEB_TOKEN": "t"}
    try:
        for arguments, status, said in ((["list", "--json"], 0, "[]\n"), (["list", "--server", "ftp://x"], 1, "")):
            done = subprocess.run([sys.executable, "manage.py", "experiments", *arguments], cwd=ROOT, env=environment,
                                  stdout=subprocess.PIPE, stderr=unread, text=True, timeout=60, check=False)
            assert (done.returncode, done.stdout) == (status, said), arguments
        assert len(server.requests) == 2
    finally:
        os.close(unread)
        server.close()

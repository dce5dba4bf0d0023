"""NNI Web as services of a machine, installed with the commands of docs/deploy/one-machine/README.md."""

from __future__ import annotations

import functools
import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

from tests.deploy.machine.origin import LIBRARIES, REPOSITORY, WHEELS, Origin, debian
from tests.deploy.machine.systemd_machine import PATIENCE, SystemdMachine
from tests.fakes.tls_certificate import make_certificate
from tests.installed.wheel_build import ROOT
from tests.trialkeeper.keeper_run import wait_until

README = ROOT / "docs/deploy/one-machine/README.md"
HOME, HOST = "/opt/nniweb", "nni.example.org"
#: The certificate and its key, as nniweb.nginx.conf names them.
CERTIFICATE, KEY = f"/etc/ssl/certs/{HOST}.pem", f"/etc/ssl/private/{HOST}.key"
ENDED = ("SUCCEEDED", "FAILED", "USER_CANCELED", "SYS_CANCELED", "EARLY_STOPPED")
#: What is not on the machine: a network, from which the commands fetch. Pattern -> what takes its place.
FETCHED = {r"git clone \.\.\.": f"git clone {REPOSITORY}", r"npm ci --omit=dev": f"cp -rT {LIBRARIES} node_modules"}


#: Between the two blocks of commands the README has people write their own settings into a file.
SETTINGS = "NNIWEB_CODE_ROOTS=/srv\nNNIWEB_GIT_PRIVATE_ADDRESSES=1\n"


def commands_of_the_readme(heading: str) -> list[str]:
    """All that it says there: a script for each block."""
    text = README.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return ["\n".join(_possible_here(line.strip()) for line in block.splitlines())
            for block in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)]


def operation(name: str) -> list[str]:
    """What the README's table says under "Operation" for a purpose: the commands of its row."""
    [row] = [line for line in README.read_text().splitlines() if line.startswith(f"| {name} |")]
    return [_possible_here(said) for said in re.findall(r"`([^`]+)`", row.replace("\\|", "|"))]


def _possible_here(command: str) -> str:
    for pattern, local in FETCHED.items():
        command = re.sub(pattern, local, command)
    return command


class Installation(SystemdMachine):
    """What people do there."""

    #: Where the server answers.
    port = 8080
    _folders = itertools.count()

    def __init__(self, origin: Origin) -> None:
        super().__init__(debian(), origin.shared)
        self.origin = origin
        (self.tree / "etc/pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {WHEELS}\n")
        _, authority = make_certificate(self.folder / "certificate", HOST)
        for made, path in ((authority, CERTIFICATE), (authority.with_name("key.pem"), KEY)):
            shutil.copy(made, self.tree / path.lstrip("/"))

    def install(self) -> None:
        put_there, start = commands_of_the_readme("Installation")
        self.shell(put_there)
        self.shell('printf %s "$1" >> /etc/nniweb/nniweb.env', SETTINGS)
        self.shell(start)
        self.wait_until_ready()

    # --- the server ------------------------------------------------------------------------

    def request(self, path: str, *options: str | Path, port: int = 0) -> tuple[int, str]:
        """Status and body of an answer; (0, "") without a whole one. ``options`` are curl's."""
        return self.get(f"http://127.0.0.1:{port or self.port}{path}", *options)

    def get(self, url: str, *options: str | Path) -> tuple[int, str]:
        done = self.run("curl", "--silent", "--max-time", "120", "--write-out", "\n%{http_code}", *map(str, options),
                        url, check=False)
        body, _, status = done.stdout.rpartition("\n")
        return (int(status), body) if done.returncode == 0 else (0, "")

    def is_ready(self, port: int = 0) -> bool:
        return self.request("/readyz", port=port)[0] == 200

    def wait_until_ready(self, port: int = 0, unit: str = "nniweb") -> None:
        try:
            wait_until(lambda: self.is_ready(port), PATIENCE, f"port {port or self.port} is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.request('/readyz', port=port)}\n{self.log(unit)}") from error

    def nniweb(self, *command: str) -> str:
        """A command as the README runs it: as the service's user, with its settings."""
        return self.shell(f"cd {HOME} && sudo sh -c 'export HOME=/var/lib/nniweb "
                          "$(grep -v \"^#\" /etc/nniweb/nniweb.env); exec setpriv --reuid=nniweb --regid=nniweb "
                          "--init-groups .venv/bin/python -m nniweb \"$@\"' sh \"$@\"", *command)

    def log(self, unit: str = "nniweb") -> str:
        return self.run("journalctl", f"--unit={unit}", "--output=cat", "--no-pager", "--lines=200").stdout

    def shown(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", "--property", name, "--value", unit).stdout.strip()

    def use(self, port: int) -> None:
        """From now on a server that has another database."""
        self.port = port
        vars(self).pop("token", None)

    # --- experiments -----------------------------------------------------------------------

    @functools.cached_property
    def token(self) -> str:
        return self.nniweb("token").strip()

    def api(self, path: str, body: Any = None, *options: str) -> Any:
        """The JSON of a good answer of the REST interface."""
        content = [] if body is None else ["--json", json.dumps(body)]
        status, answer = self.request(f"/api/v1/{path}", "--header", f"Authorization: Token {self.token}", *content,
                                      *options)
        assert 200 <= status < 300, f"{path}: {status} {answer[:2000]}"
        return json.loads(answer) if answer else None

    def put_code(self, code: str) -> str:
        """A folder with the trial, which the server can read: in /srv, because the home folder holds its keys."""
        folder = f"/srv/code-{next(self._folders)}"
        self.write(f"{folder}/trial.py", code, owner="nniweb")
        return folder

    def launch(self, code: str, **config: Any) -> str:
        """An experiment with this trial in a folder of the machine; its id."""
        folder = self.put_code(code)
        return str(self.api("experiments/", {
            "config": self.config(trialCodeDirectory=folder, **config), "base_directory": folder})["id"])

    @staticmethod
    def config(**more: Any) -> dict[str, Any]:
        return {"trialCommand": "python3 trial.py", "trialConcurrency": 1, "maxTrialNumber": 1,
                "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"},
                "trainingService": {"platform": "local"}, **more}

    def trials(self, experiment: str) -> list[dict[str, Any]]:
        return list(self.api(f"experiments/{experiment}/trials/")["results"])

    def wait_for_trial(self, experiment: str, *statuses: str) -> dict[str, Any]:
        """Its only trial, when it has one of these statuses (default: has ended)."""
        def reached() -> list[dict[str, Any]]:
            return [each for each in self.trials(experiment) if each["status"] in (statuses or ENDED)]
        try:
            return dict(wait_until(reached, PATIENCE, f"the trial is {statuses or 'at its end'}")[0])
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.trials(experiment)}\n{self.log()}") from error

    def values(self, trial: str) -> list[float]:
        """What it has reported, in its order."""
        found: list[float] = []
        for page in range(1, 1000):
            answer = self.api(f"trials/{trial}/metrics/?kind=PERIODICAL&page_size=100&page={page}")
            found += [float(each["number"]) for each in answer["results"]]
            if answer["next"] is None:
                return found
        raise AssertionError(f"{trial} has more than {len(found)} values")

    def processes_of(self, command: str) -> list[str]:
        """The numbers of processes whose command begins so."""
        return self.run("pgrep", "--full", f"^{re.escape(command)}", check=False).stdout.split()

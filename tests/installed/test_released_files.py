"""``make release`` of a tagged copy of this checkout, and its files as people use them: uvx, pipx, pip with extras, a
source archive without network. Packages come from the package index; what cannot be fetched skips the test.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from nniweb.storage.data_folder import ServerLock
from nniweb.version import NEXT_RELEASE
from tests.end_to_end.running_server import ROOT, RunningServer
from tests.installed.release_copy import index_for_uv, release_tools, tagged_copy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
#: Of each extra: what the parts that need it import.
IMPORTS = {"azure": "azure.ai.ml, azure.identity", "mcp": "mcp, nniweb.mcp_server.server", "oidc": "authlib",
           "otel": "opentelemetry.sdk.trace, opentelemetry.exporter.otlp.proto.http.trace_exporter", "s3": "minio",
           "scale": "psycopg, psycopg_pool, channels_redis.pubsub, redis", "tensorboard": "tensorboard.program",
           "tuners": "sklearn.gaussian_process, scipy.optimize"}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_tools(tmp_path_factory.mktemp("tools") / "venv")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tagged_copy(tmp_path_factory.mktemp("one") / "nniweb")


@pytest.fixture(scope="module")
def dist(tools: Path, copy: Path) -> Path:
    """What ``make release`` leaves, after ``make docs``."""
    done = subprocess.run([tools / "python", "-m", "release"], cwd=copy, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=1800, check=False,
                          env={**os.environ, "PYTHONPATH": "scripts"})
    if done.returncode and "No matching distribution" in done.stdout:
        pytest.skip("the packages that the wheel needs cannot be fetched from the package index")
    assert done.returncode == 0, done.stdout
    return copy / "dist"


@pytest.fixture(scope="module")
def released_wheel(dist: Path) -> Path:
    return dist / f"nniweb-{NEXT_RELEASE}-py3-none-any.whl"


@pytest.fixture(scope="module")
def source(dist: Path) -> Path:
    return dist / f"nniweb-{NEXT_RELEASE}.tar.gz"


def surroundings(folder: Path) -> dict[str, str]:
    """Of somebody with an empty home, who has what pip is configured for on this machine."""
    kept = {name: value for name, value in os.environ.items()
            if name in ("PATH", "LANG", "TMPDIR") or name.startswith("PIP_") or name.lower().endswith("_proxy")}
    return {**kept, **index_for_uv(), "HOME": str(folder)}


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    done = subprocess.run(list(command), cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=1800, check=False, env={**surroundings(folder), **environment})
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def test_all_that_is_published_is_in_dist_with_checksums(dist: Path, released_wheel: Path, source: Path) -> None:
    names = {file.name for file in dist.iterdir()}
    assert names == {released_wheel.name, source.name, f"nniweb-{NEXT_RELEASE}.cdx.json",
                     f"nniweb-{NEXT_RELEASE}.changes.md", "SHA256SUMS"}
    checked = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist, text=True,
                             capture_output=True, check=True).stdout
    assert checked.count(": OK") == 4
    with zipfile.ZipFile(released_wheel) as archive:
        assert archive.read("nniweb/bundled/version.txt").decode().strip() == NEXT_RELEASE
        assert f"\nVersion: {NEXT_RELEASE}\n" in archive.read(
            f"nniweb-{NEXT_RELEASE}.dist-info/METADATA").decode()
    assert "# Changelog" not in (dist / f"nniweb-{NEXT_RELEASE}.changes.md").read_text()


def test_the_bill_lists_what_an_installation_gets(dist: Path) -> None:
    text = (dist / f"nniweb-{NEXT_RELEASE}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document: dict[str, Any] = json.loads(text)
    named = {one["name"].lower(): one for one in document["components"]}
    assert {"django", "paramiko", "kubernetes", "echarts", "swagger-ui-dist", "sqlparse"} <= set(named)
    assert "pytest" not in named
    pins = dict(line.split("==") for line in (ROOT / "requirements" / "constraints.txt").read_text().splitlines()
                if "==" in line)
    assert named["django"]["version"] == pins["Django"]
    assert document["metadata"]["component"]["purl"] == f"pkg:pypi/nniweb@{NEXT_RELEASE}"
    for private in (str(Path.home()), "file://", "/tmp"):
        assert private not in text


def test_the_same_commit_elsewhere_later_and_by_somebody_else_gives_the_same_bytes(
        copy: Path, dist: Path, tools: Path, tmp_path: Path) -> None:
    other = tagged_copy(tmp_path / "a longer name" / "of a folder", copy, umask=0o077)
    for path in other.rglob("*"):
        if path.is_file() and not path.is_symlink() and ".git" not in path.parts:
            os.utime(path, (time.time() - 9_000_000, time.time() - 9_000_000))
    program = ("from pathlib import Path\nfrom release.artefacts import build\nfrom release.checks import git\n"
               "build(Path.cwd(), Path('again'), int(git(Path.cwd(), 'log', '-1', '--format=%ct')), '--no-isolation')")
    subprocess.run([tools / "python", "-c", program], cwd=other, check=True, timeout=1200, capture_output=True,
                   umask=0o077, env={**os.environ, "PYTHONPATH": f"scripts{os.pathsep}.", "TZ": "Asia/Tokyo"})
    sums = dict(reversed(line.split("  ")) for line in (dist / "SHA256SUMS").read_text().splitlines())
    again = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (other / "again").iterdir()}
    assert len(again) == 2
    assert again == {name: sums[name] for name in again}


def test_the_source_archive_is_built_without_any_network(source: Path, tools: Path, tmp_path: Path,
                                                         released_wheel: Path) -> None:
    """But for the tool that builds, which lies there; in a namespace of the kernel that has no way out."""
    unshare = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine makes no network namespaces for tests")
    run([*unshare, tools / "python", "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index",
         "-w", "built", str(source)], tmp_path)
    with zipfile.ZipFile(tmp_path / "built" / released_wheel.name) as built, zipfile.ZipFile(released_wheel) as other:
        assert {name: built.getinfo(name).CRC for name in built.namelist()} == {
            name: other.getinfo(name).CRC for name in other.namelist()}


def test_the_source_archive_is_built_by_pip_with_the_index_alone(source: Path, tools: Path, tmp_path: Path,
                                                                 released_wheel: Path) -> None:
    run([tools / "python", "-m", "pip", "wheel", "-q", "--no-deps", "-w", "built", str(source)], tmp_path)
    assert [file.name for file in (tmp_path / "built").iterdir()] == [released_wheel.name]
    with tarfile.open(source) as archive:
        names = archive.getnames()
    assert f"nniweb-{NEXT_RELEASE}/nniweb/version.py" in names
    # (a chart of the documentation has a folder of that name)
    assert not [name for name in names if name.startswith(f"nniweb-{NEXT_RELEASE}/tests") or name.endswith(".pyc")]


class ServedBy(RunningServer):
    """``nniweb serve`` by a program that installs the wheel on the spot."""

    def __init__(self, folder: Path, program: Sequence[str | Path], variables: dict[str, str]) -> None:
        super().__init__(folder / "data", env={**surroundings(folder), **variables}, starts_empty=True)
        self.working_directory = folder
        self.program = tuple(str(part) for part in program)

    def command(self, program: Sequence[str]) -> list[str]:
        return [*self.program, "serve"]

    def answers(self) -> bool:
        """The server may be a child of the program that was started."""
        return (self.data_folder / "server.json").is_file()


@pytest.fixture(params=["uvx", "pipx"])
def served(request: pytest.FixtureRequest, tools: Path, released_wheel: Path, tmp_path: Path) -> Iterator[ServedBy]:
    # the same Python as here; both keep what they install in the empty home
    programs: dict[str, list[str | Path]] = {
        "uvx": [tools / "uvx", "--python", sys.executable, "--from", released_wheel, "nniweb"],
        "pipx": [tools / "pipx", "run", "--python", sys.executable, "--spec", released_wheel, "nniweb"]}
    program = programs[request.param]
    assert f"nniweb {NEXT_RELEASE}" in run([*program, "--version"], tmp_path)
    server = ServedBy(tmp_path, program, {})
    try:
        yield server.start()
    finally:
        server.close()


def test_uvx_and_pipx_run_serve_a_server_that_runs_trials(served: ServedBy) -> None:
    link = served.wait_until(lambda: next((word for word in served.log_file.read_text().split()
                                           if "/sign-in/" in word), ""), what="the link is printed")
    assert served.request("GET", link[link.index("/sign-in/"):]).ok
    page = served.request("GET", "/docs/index.html")
    assert page.ok
    assert f"NNI Web {NEXT_RELEASE}" in page.text
    assert served.request("GET", "/readyz").json()["ready"]
    config = yaml.safe_load((ROOT / "examples" / "quadratic" / "config.yml").read_text())
    experiment = served.launch({**config, "maxTrialNumber": 2}, ROOT / "examples" / "quadratic")
    served.wait_for_experiment(experiment)
    assert [trial["status"] for trial in served.get_all(f"experiments/{experiment}/trials/")] == ["SUCCEEDED"] * 2
    served.stop()  # Ctrl-C for the program alone
    served.wait_until(lambda: not ServerLock(served.data_folder).is_held(), what="the server has ended")


@pytest.mark.parametrize("extra", sorted(IMPORTS))
def test_each_extra_resolves_and_imports(extra: str, tools: Path, released_wheel: Path, tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    run([tools / "uv", "venv", "-q", "--python", sys.executable, tmp_path / "venv"], tmp_path)
    run([tools / "uv", "pip", "install", "-q", "--python", python, f"nniweb[{extra}] @ {released_wheel.as_uri()}"],
        tmp_path)
    run([python, "-c", f"import nniweb, {IMPORTS[extra]}"], tmp_path, DJANGO_SETTINGS_MODULE="nniweb.settings")
    run([tools / "uv", "pip", "check", "-q", "--python", python], tmp_path)


def test_no_extra_is_left_out(released_wheel: Path) -> None:
    with zipfile.ZipFile(released_wheel) as archive:
        metadata = archive.read(f"nniweb-{NEXT_RELEASE}.dist-info/METADATA").decode()
    offered = {line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Provides-Extra: ")}
    assert offered == set(IMPORTS)

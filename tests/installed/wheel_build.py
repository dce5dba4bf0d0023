"""A wheel as anybody builds it, and environments with nothing in them but what it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

from docs_site.build import built_site
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
#: What belongs to a release, of a checkout.
PARTS = ("nniweb", "trainingservice", "trialkeeper", "hydra_plugins", "templates", "static", "examples", "requirements",
         "pyproject.toml", "setup.py", "MANIFEST.in", "requirements.txt", "README.md", "LICENSE")


def copy_checkout(folder: Path) -> Path:
    """A copy of the checkout without what building leaves behind, and with the documentation site; the browser
    libraries are linked.
    """
    folder.mkdir()
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=skip)
        else:
            shutil.copy(ROOT / name, folder)
    shutil.copytree(built_site(), folder / "docs-site")
    (folder / "node_modules").symlink_to((ROOT / "node_modules").resolve())
    return folder


def build(checkout: Path, target: Path) -> tuple[Path, Path]:
    """What ``make wheel`` does: the source archive, and the wheel that is made from it. Nothing is fetched."""
    said = build_output(checkout, target)
    assert said.returncode == 0, said.stdout[-5000:]
    [source], [wheel] = target.glob("*.tar.gz"), target.glob("*.whl")
    return source, wheel


def build_output(checkout: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """The same, whatever becomes of it."""
    return subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(checkout)],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False)


def make_environment(folder: Path, wheel: Path, needs: Sequence[str] | None = None) -> Path:
    """A virtual environment in ``folder/venv`` with the wheel, and with nothing but what it needs; returns its path.

    The packages are those of the environment the tests run in, linked, so that nothing is fetched. ``needs``: the
    names of other packages than those that the wheel asks for.
    """
    environment = folder / "venv"
    venv.create(environment, with_pip=False)
    [packages] = (environment / "lib").glob("python*/site-packages")
    for name in with_what_they_need(asked_for(wheel) if needs is None else needs):
        _link(name, packages)
    install = ["--python", str(environment / "bin" / "python"), "install", "-q", "--no-index", "--no-compile"]
    subprocess.run([sys.executable, "-m", "pip", *install, *(["--no-deps"] if needs else []), str(wheel)], check=True,
                   timeout=600, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return environment


def asked_for(wheel: Path) -> list[str]:
    """What the wheel's metadata ask for, extras left out."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        lines = archive.read(name).decode().splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines
            if line.startswith("Requires-Dist: ") and "extra ==" not in line]


def with_what_they_need(lines: Sequence[str]) -> set[str]:
    """The packages' names and, again and again, those of what they need, here and now."""
    left = [Requirement(line) for line in lines]
    found: set[tuple[str, str]] = set()
    while left:
        wanted = left.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        for extra in (*wanted.extras, ""):
            if (name, extra) not in found:
                found.add((name, extra))
                inner = [Requirement(line) for line in distribution(name).requires or ()]
                left += [each for each in inner if each.marker is None or each.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


def _link(name: str, packages: Path) -> None:
    """Put what a package installed beside one another into another environment, as links."""
    found = distribution(name)
    for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
        if not (packages / top).exists():
            (packages / top).symlink_to(Path(str(found.locate_file(top))).resolve())

"""A wheel as anybody builds it, and environments with nothing in them but what it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: What belongs to a release, of a checkout.
PARTS = ("nniweb", "trainingservice", "trialkeeper", "templates", "static", "examples", "requirements",
         "pyproject.toml", "setup.py", "MANIFEST.in", "requirements.txt", "README.md", "LICENSE")


def copy_checkout(folder: Path) -> Path:
    """A copy of the checkout without what building leaves behind; the browser libraries are linked."""
    folder.mkdir()
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=skip)
        else:
            shutil.copy(ROOT / name, folder)
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


def make_environment(folder: Path, *, wheel: Path, without: str = "") -> Path:
    """A virtual environment in ``folder/venv`` with the wheel and the packages that it asks for, all by name.

    They are those of the environment the tests run in, linked, so that nothing is fetched. ``without``: a package that
    is left out, and what only that one needs.
    """
    venv.create(folder / "venv", with_pip=False)
    [packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    for name in needed_packages(without):
        _link(name, packages)
    subprocess.run([sys.executable, "-m", "pip", "--python", str(folder / "venv" / "bin" / "python"), "install", "-q",
                    "--no-index", "--no-deps" if without else "--no-compile", str(wheel)], check=True, timeout=600,
                   env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return folder / "venv"


def needed_packages(without: str = "") -> set[str]:
    """The names of requirements.txt, and what those need, here and now."""
    from packaging.requirements import Requirement

    lines = (ROOT / "requirements.txt").read_text().splitlines()
    left = [line.partition("#")[0].strip() for line in lines if line and not line.startswith(("#", "-"))]
    found: set[str] = set()
    while left:
        wanted = Requirement(left.pop())
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name == without or name in found:
            continue
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in wanted.extras or ("",)):
            found.add(name)
            extras = wanted.extras
            for line in distribution(name).requires or ():
                inner = Requirement(line)
                if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in extras or ("",)):
                    inner.marker = None
                    left.append(str(inner))
    return found


def _link(name: str, packages: Path) -> None:
    """Put what a package installed beside one another into another environment, as links."""
    found = distribution(name)
    for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
        if not (packages / top).exists():
            (packages / top).symlink_to(Path(str(found.locate_file(top))).resolve())

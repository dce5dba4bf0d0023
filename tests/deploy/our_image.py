"""The image of docs/deploy/containers/Containerfile, built by podman from the wheel of this checkout, with no network.

The base that the Containerfile names cannot be fetched without a registry of images: a small Debian takes its place.
The Python packages are fetched before, by pip as it is set up on this machine, in the versions of constraints.txt.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.container_engine import ContainerEngine
from tests.deploy.debian_tree import debian_tree
from tests.installed.wheel_build import ROOT

BASE, IMAGE = "localhost/python-of-debian:1", "localhost/nniweb:test"
#: What is in python:3.11-slim, and what the Containerfile installs; there is no network to install it from.
PACKAGES = ("python3", "python3-venv", "ca-certificates", "postgresql-client", "git", "openssh-client")
#: Asked for by redis before Python 3.11.3 (Debian 12 has 3.11.2), which pip does not see when a newer one runs it.
OF_OLDER_PYTHONS = ("async-timeout",)
CONTAINERFILE = "docs/deploy/containers/Containerfile"
IGNORED = ".dockerignore"


def build_image(engine: ContainerEngine, wheel: Path, folder: Path) -> str:
    """The name of the image, which is built in ``folder``, new, with nothing but what the Containerfile is to see."""
    engine.import_tree(debian_tree(PACKAGES), BASE)
    folder.mkdir()
    (folder / "dist").mkdir()
    shutil.copy(wheel, folder / "dist")
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    for name in (IGNORED, CONTAINERFILE):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    version = engine.podman("run", "--rm", "--network=none", BASE, "python3", "-c",
                            "import sys; print('%d.%d' % sys.version_info[:2])").stdout.strip()
    packages = fetched_packages(version)
    settings = folder.with_name(f"{folder.name}-pip.conf")
    settings.write_text("[global]\nno-index = true\nfind-links = /packages\n")
    engine.podman("build", "--isolation=chroot", "--build-arg", f"BASE={BASE}", "--file", folder / CONTAINERFILE,
                  "--volume", f"{packages}:/packages:ro", "--volume", f"{settings}:/etc/pip.conf:ro",
                  "--tag", IMAGE, folder)
    return IMAGE


def fetched_packages(version: str) -> Path:
    """A folder with the wheels of requirements.txt and scale.txt for a version of Python. Skips without an index.

    It is filled once for each list, in ~/.cache/nniweb-tests (or NNIWEB_TEST_CACHE). Others use it, too: only read it.
    """
    wanted = [ROOT / "requirements.txt", ROOT / "requirements/scale.txt", ROOT / "requirements/constraints.txt"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in wanted)).hexdigest()[:12]
    cache = Path(os.environ.get("NNIWEB_TEST_CACHE") or Path.home() / ".cache" / "nniweb-tests")
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"wheels-{digest}-python{version}"
    with open(folder.with_name(f"{folder.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unready = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(unready, ignore_errors=True)
            _fetch(version, unready)
            unready.rename(folder)
    return folder


def _fetch(version: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version", version,
         "--dest", str(folder), "--constraint", "requirements/constraints.txt", "--requirement", "requirements.txt",
         "--requirement", "requirements/scale.txt", *OF_OLDER_PYTHONS], cwd=ROOT,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=900, check=False)
    if done.returncode:
        pytest.skip("the packages of the image cannot be fetched: "
                    f"{(done.stderr.strip().splitlines() or ['no message'])[-1]}")

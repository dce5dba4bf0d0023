"""A copy of this checkout as a commit with a tag, and the tools of a release in an environment of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from docs_site.build import built_site

from nniweb.version import NEXT_RELEASE
from tests.installed.wheel_build import ROOT


def tagged_copy(folder: Path, *, umask: int = 0o022) -> Path:
    """All files of this checkout that git knows or would add, committed and tagged as the next release. The
    documentation site is the one that is built here; the browser libraries are linked.
    """
    before = os.umask(umask)
    try:
        names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                               capture_output=True, text=True, check=True).stdout.split("\0")
        for name in filter(None, names):
            if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)
        changelog = folder / "CHANGELOG.md"
        changelog.write_text(re.sub(r"^## .*$", f"## {NEXT_RELEASE} (2026-12-01)", changelog.read_text(), count=1,
                                    flags=re.MULTILINE))
        shutil.copytree(built_site(), folder / "docs-site", copy_function=shutil.copyfile)
        (folder / "node_modules").symlink_to((ROOT / "node_modules").resolve())
    finally:
        os.umask(before)
    git(folder, "init", "-q")
    (folder / ".git" / "info" / "exclude").write_text("/node_modules\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "release")
    git(folder, "tag", "-a", f"v{NEXT_RELEASE}", "-m", f"NNI Web {NEXT_RELEASE}")
    return folder


def git(folder: Path, *arguments: str) -> None:
    dated = {"GIT_COMMITTER_DATE": "2026-12-01T12:00:00+00:00", "GIT_AUTHOR_DATE": "2026-12-01T12:00:00+00:00"}
    subprocess.run(["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments], cwd=folder,
                   check=True, capture_output=True, env={**os.environ, **dated})


def release_tools(folder: Path) -> Path:
    """An environment with requirements/release.txt; its folder of programs. Skips where that cannot be installed."""
    venv.create(folder, with_pip=True)
    done = subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", "-r",
                           str(ROOT / "requirements" / "release.txt")], capture_output=True, text=True, timeout=1200,
                          check=False)
    if done.returncode:
        pytest.skip("the tools of a release cannot be installed: "
                    f"{(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return folder / "bin"


def index_for_uv() -> dict[str, str]:
    """uv reads no configuration of pip: what it says of package indexes and certificates, as variables for uv."""
    said = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True,
                          check=True).stdout
    found = dict(re.findall(r"^\S+?\.([a-z-]+)='(.*)'$", said, re.MULTILINE))
    names = {"index-url": "UV_DEFAULT_INDEX", "cert": "SSL_CERT_FILE"}
    variables = {names[key]: value for key, value in found.items() if key in names}
    links = [place for place in found.get("find-links", "").split() if "://" in place or Path(place).is_dir()]
    if links:
        variables["UV_FIND_LINKS"] = ",".join(links)
    return variables

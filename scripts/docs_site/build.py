"""Builds the site into ``docs-site``, where the server and setup.py find it, unless nothing has changed since.

Strict: a link or a picture that leads nowhere, a page that the navigation lacks, and any other warning end it.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from docs_site.pages import ELSEWHERE, ROOT

sys.path.insert(0, str(ROOT))  # for python -m docs_site, which knows scripts/ alone

from nniweb.version import version  # noqa: E402

SITE = ROOT / "docs-site"
#: What the site is made of; Python too, since the REST reference is made from the server's code.
_SOURCES = ("docs/**/*", "scripts/docs_site/**/*", "nniweb/**/*.py", "trainingservice/**/*.py", "static/icon.svg",
            "mkdocs.yml", "requirements/constraints.txt", *ELSEWHERE)
#: Tells hooks.py, which MkDocs loads in a process of its own, that pages get a selector of versions.
SELECTOR_VARIABLE = "DOCS_SITE_SELECTOR"
#: Files of these kinds above so many bytes have a compressed one beside them, which the server sends instead.
_COMPRESSED, _WORTH_COMPRESSING = (".css", ".html", ".js", ".json"), 10_000
#: For search engines; with addresses from the top of a host, where the site is not; for who debugs the theme. Searching
#: in other languages than English goes, too.
_NOT_FOR_A_SERVER = ("sitemap.xml*", "404.html", "**/*.map")


class BuildFailed(Exception):
    """The text is what MkDocs said."""


def built_site() -> Path:
    """The folder with the site of this checkout as it is now. One process builds at a time, the others wait for it.
    Raises BuildFailed.
    """
    digest = _digest()
    stamp = SITE / ".built-from"
    with open(__file__, encoding="utf-8") as own_file:
        fcntl.flock(own_file, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != digest:
            with tempfile.TemporaryDirectory(dir=ROOT, prefix="docs-site-") as folder:
                fresh = Path(folder) / "site"
                build(fresh)
                (fresh / ".built-from").write_text(digest)
                shutil.rmtree(SITE, ignore_errors=True)
                fresh.rename(SITE)
    return SITE


def build(target: Path, config: Path = ROOT / "mkdocs.yml", *, with_selector: bool = False) -> None:
    """Build into a folder, whatever is there. Raises BuildFailed.

    ``with_selector``: pages offer the other versions that ``versions.json``, beside the folder, names.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_"))}
    with tempfile.TemporaryDirectory() as data:  # the server's settings name a data folder, which must not be people's
        done = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config), "--site-dir",
             str(target)],
            cwd=ROOT, env={**environment, "NNIWEB_DATA": data, "DJANGO_SETTINGS_MODULE": "nniweb.settings",
                           "NO_MKDOCS_2_WARNING": "1", SELECTOR_VARIABLE: "1" if with_selector else ""},
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise BuildFailed(done.stdout.strip())
    for path in [path for pattern in _NOT_FOR_A_SERVER for path in target.glob(pattern)]:
        path.unlink()
    shutil.rmtree(target / "assets" / "javascripts" / "lunr")
    for path in target.rglob("*"):
        if path.suffix in _COMPRESSED and path.stat().st_size > _WORTH_COMPRESSING:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def _digest() -> str:
    digest = hashlib.sha256(version().encode())  # which a tag changes, and no file
    for path in _sources():
        digest.update(f"{path.relative_to(ROOT)}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    for pattern in _SOURCES:
        yield from sorted(path for path in ROOT.glob(pattern) if path.is_file() and path.suffix != ".pyc")

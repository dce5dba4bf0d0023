"""Gets a public script from its source, unchanged, and puts its config file beside it.

    python examples/public-scripts/fetch.py                    # the names
    python examples/public-scripts/fetch.py makemore folder

Needs git (or pip, for a script that is part of a package) and PyYAML. The script must have the content that scripts.yml
says, else nothing is written.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
SCRIPTS: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "scripts.yml").read_text(encoding="utf-8"))
SOURCE = "https://github.com/"


def fetched(name: str, base: str = SOURCE) -> dict[str, bytes]:
    """The files of a script by their names here. ``base``: where its repository lies; a folder can be one.

    Raises subprocess.CalledProcessError, OSError, and ValueError where the script has another content.
    """
    about = SCRIPTS[name]
    with tempfile.TemporaryDirectory() as folder:
        read = _of_package if "package" in about else _of_repository
        files = read(about, base, Path(folder))
    digest = hashlib.sha256(next(iter(files.values()))).hexdigest()
    if digest != about["sha256"]:
        raise ValueError(f"{name} has another content than scripts.yml says: SHA-256 {digest}")
    return files


def _of_repository(about: dict[str, Any], base: str, folder: Path) -> dict[str, bytes]:
    def git(*arguments: str) -> bytes:
        return subprocess.run(["git", *arguments], cwd=folder, check=True, stdout=subprocess.PIPE).stdout
    git("init", "-q")
    git("fetch", "-q", "--depth", "1", f"{base}{about['repository']}", about["commit"])
    return {name: git("show", f"FETCH_HEAD:{path}") for name, path in about["files"].items()}


def _of_package(about: dict[str, Any], _: str, folder: Path) -> dict[str, bytes]:
    """From the source package of the index that pip uses."""
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
                    "-d", str(folder), about["package"]], check=True)
    [archive] = folder.glob("*.tar.gz")
    files = {}
    with tarfile.open(archive) as opened:
        for name, path in about["files"].items():
            member = opened.extractfile(f"{archive.name.removesuffix('.tar.gz')}/{path}")
            if member is None:
                raise ValueError(f"{archive.name} has no file {path}")
            files[name] = member.read()
    return files


def main() -> None:
    """Exits with a sentence where the script cannot be had."""
    parser = argparse.ArgumentParser(description="Gets a public script and its config file.")
    parser.add_argument("name", nargs="?", choices=sorted(SCRIPTS))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--source", default=SOURCE, help=f"where repositories lie; default: {SOURCE}")
    given = parser.parse_args()
    if given.name is None or given.folder is None:
        for name, about in SCRIPTS.items():
            print(f"{name:24}{about['kind']}")
        return
    try:
        files = fetched(given.name, given.source)
    except (subprocess.CalledProcessError, OSError, ValueError) as error:
        raise SystemExit(f"error: {given.name} cannot be fetched: {error}") from error
    files["config.yml"] = (HERE / "configs" / f"{given.name}.yml").read_bytes()
    for name, content in files.items():
        path = given.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    about = SCRIPTS[given.name]
    print(f"pip install {' '.join(about['packages'])}\ncd {given.folder}\n{about['launch']}")


if __name__ == "__main__":
    main()

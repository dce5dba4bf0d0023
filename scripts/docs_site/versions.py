"""``make docs-versions``: the documentation of this version beside that of others, for a public host.

    python -m docs_site.versions FOLDER

    FOLDER/0.3.0/        the site of each version, with a selector in its header
    FOLDER/versions.json what the selector offers, the newest first: the form of mike, which the theme reads
    FOLDER/index.html    leads to the newest release, and so does FOLDER/latest/

Any web server can serve the folder; nothing is loaded from elsewhere. Versions that are there stay as they are. What is
no release goes to FOLDER/dev/, in place of the one before. A server has its own version alone, without a selector.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from packaging.version import Version

from docs_site.build import BuildFailed, build
from docs_site.pages import ROOT

LIST, DEVELOPMENT, NEWEST = "versions.json", "dev", "latest"
_LEADS = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>NNI Web</title>
<meta http-equiv="refresh" content="0; url={to}">
<p><a href="{to}">The documentation</a></p>
</html>
"""


def add_version(folder: Path, version: str, config: Path = ROOT / "mkdocs.yml") -> Path:
    """Build the site of this checkout, as ``version``, into its folder beside the others; return that. Raises
    BuildFailed, and ValueError where the list of versions cannot be read; then the folder is as it was.
    """
    name = DEVELOPMENT if Version(version).is_prerelease else version
    known = [one for one in _known(folder) if one["version"] != name]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as work:
        fresh = Path(work) / "site"
        build(fresh, config, with_selector=True)
        shutil.rmtree(folder / name, ignore_errors=True)
        fresh.rename(folder / name)
    listed = sorted([*known, {"version": name, "title": version}], key=_place, reverse=True)
    newest = next((one["version"] for one in listed if one["version"] != DEVELOPMENT), DEVELOPMENT)
    for one in listed:
        one["aliases"] = [NEWEST] if one["version"] == newest else []
    (folder / LIST).write_text(json.dumps(listed, indent=1) + "\n")
    (folder / NEWEST).mkdir(exist_ok=True)
    (folder / NEWEST / "index.html").write_text(_LEADS.format(to=f"../{newest}/index.html"))
    (folder / "index.html").write_text(_LEADS.format(to=f"{newest}/index.html"))
    return folder / name


def _known(folder: Path) -> list[dict[str, Any]]:
    try:
        text = (folder / LIST).read_text()
    except FileNotFoundError:
        return []
    try:
        return [{"version": str(one["version"]), "title": str(one["title"])} for one in json.loads(text)]
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"{folder / LIST} is no list of versions. Restore it, or remove it: then the selector offers "
                         "this version alone.") from None


def _place(one: dict[str, Any]) -> tuple[bool, Version]:
    """What is no release comes first in the list."""
    return one["version"] == DEVELOPMENT, Version(one["title"])


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    sys.path.insert(0, str(ROOT))
    import nniweb

    try:
        print(f"{add_version(Path(arguments[0]), nniweb.__version__)} has the documentation of {nniweb.__version__}.")
    except (BuildFailed, ValueError, OSError) as error:
        print(f"{error}\nThe documentation was not added.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

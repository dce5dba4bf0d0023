"""``make release``: what is published of this commit, in ``dist``; or what is not as it should be.

    python -m release [--checkout FOLDER] [--dist FOLDER]

Ends with 1 and sentences where something is wrong; then ``dist`` is as it was.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from nniweb import version  # noqa: E402
from release.artefacts import OLDEST, BuildFailed, build, run, write_checksums  # noqa: E402
from release.checks import changes_of, git, problems  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument("--dist", type=Path)
    given = parser.parse_args()
    checkout: Path = given.checkout.resolve()
    target: Path = given.dist or checkout / "dist"
    try:
        if found := problems(checkout):
            print("Nothing was built, because this is no release yet:", *found, sep="\n- ", file=sys.stderr)
            return 1
        with tempfile.TemporaryDirectory(prefix="nniweb-release-") as folder:
            _make(checkout, Path(folder), target)
    except (BuildFailed, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        print(f"{error}\nNothing was released: mend what is above, and try again.", file=sys.stderr)
        return 1
    return 0


def _make(checkout: Path, folder: Path, target: Path) -> None:
    from release.sbom import write_sbom

    release = version.of_tag(checkout) or ""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or git(checkout, "log", "-1", "--format=%ct").strip() or OLDEST)
    fresh = folder / "dist"
    print(f"Building NNI Web {release} ...", flush=True)
    source, wheel = build(checkout, fresh, epoch, "--no-isolation")
    if f"-{release}" not in wheel.name:
        raise BuildFailed(f"The wheel is called {wheel.name}, and not {release}.")
    run([sys.executable, "-m", "twine", "check", "--strict", str(source), str(wheel)])
    print("Listing what an installation gets ...", flush=True)
    bill = fresh / f"nniweb-{release}.cdx.json"
    write_sbom(checkout, wheel, bill, epoch, folder)
    notes = fresh / f"nniweb-{release}.changes.md"
    notes.write_text(changes_of((checkout / "CHANGELOG.md").read_text(encoding="utf-8"), version.NEXT_RELEASE) + "\n",
                     encoding="utf-8")
    write_checksums(fresh, [source, wheel, bill, notes])
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(fresh, target)
    for file in sorted(target.iterdir()):
        print(f"{file.stat().st_size:>12,}  {target.name}/{file.name}")
    print("docs/releasing.md says how they are published.")


if __name__ == "__main__":
    sys.exit(main())

"""Whether a commit is a release, what version a checkout is, and that archives are the same bytes each time."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from release.artefacts import make_reproducible, write_checksums
from release.checks import changes_of, problems
from release.sbom import complete

from nniweb import version
from tests.fakes.ssh_machine import needs_root

ROOT = Path(__file__).resolve().parents[2]
RELEASE = version.NEXT_RELEASE
TAG = f"v{RELEASE}"


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments], cwd=folder,
                   check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small one that is a release but for its tag."""
    folder = tmp_path / "checkout"
    (folder / "nniweb").mkdir(parents=True)
    shutil.copy(ROOT / "nniweb" / "version.py", folder / "nniweb")
    shutil.copy(ROOT / "nniweb" / "__init__.py", folder / "nniweb")
    (folder / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## {RELEASE} (2026-12-01)\n\n- News.\n\n## 0.1.0 (2026-11-21)\n")
    (folder / "install.md").write_text(f"pip install nniweb-{RELEASE}-py3-none-any.whl\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "all")
    return folder


def tag(checkout: Path, name: str = TAG) -> None:
    git(checkout, "tag", "-a", name, "-m", name)


def said_version(checkout: Path, **environment: str) -> str:
    """What a program of the checkout takes itself for."""
    return subprocess.run([sys.executable, "-c", "import nniweb; print(nniweb.__version__)"], cwd=checkout, text=True,
                          env={**os.environ, **environment}, capture_output=True, check=True).stdout.strip()


# --- the version ---------------------------------------------------------------------------------


def test_the_tag_alone_makes_a_checkout_a_release(checkout: Path) -> None:
    assert version.version(checkout / "nniweb") == f"{RELEASE}.dev0"
    tag(checkout, f"{TAG}rc1")
    assert version.version(checkout / "nniweb") == f"{RELEASE}rc1"
    tag(checkout)
    assert version.version(checkout / "nniweb") == said_version(checkout) == RELEASE
    (checkout / "install.md").write_text("later\n")
    git(checkout, "commit", "-qam", "later")
    assert version.version(checkout / "nniweb") == f"{RELEASE}.dev0"


def test_without_git_or_a_repository_it_is_what_the_next_release_will_be(checkout: Path, tmp_path: Path) -> None:
    tag(checkout)
    assert said_version(checkout, PATH=str(tmp_path)) == f"{RELEASE}.dev0"
    copy = checkout / "vendor" / "nniweb-copy"  # inside somebody's repository, whose tag is not its own
    shutil.copytree(checkout / "nniweb", copy / "nniweb")
    assert said_version(copy) == f"{RELEASE}.dev0"


def test_a_hook_of_git_names_another_repository_and_is_not_asked(checkout: Path, tmp_path: Path) -> None:
    tag(checkout)
    git(tmp_path, "init", "-q", "other")
    assert said_version(checkout, GIT_DIR=str(tmp_path / "other" / ".git")) == RELEASE


def test_a_checkout_that_belongs_to_another_user_is_asked_too(checkout: Path) -> None:
    """As where root has cloned it for a service with a user of its own; git refuses such repositories."""
    needs_root()
    tag(checkout)
    for path in (checkout, *checkout.rglob("*")):
        os.chown(path, 65534, 65534)
    assert said_version(checkout) == RELEASE


def test_what_was_written_when_it_was_built_counts_and_git_does_not(checkout: Path) -> None:
    tag(checkout)
    (checkout / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: nniweb\nVersion: 9.8.7\n")
    assert said_version(checkout) == "9.8.7"
    written = checkout / "nniweb" / version.WRITTEN
    written.parent.mkdir()
    written.write_text("9.9.9\n")
    assert said_version(checkout) == "9.9.9"


def test_other_tags_are_no_releases_of_this_tree(checkout: Path) -> None:
    for name in ("v99.0.0", f"{TAG}-old", f"release-{RELEASE}", "latest"):
        tag(checkout, name)
    assert version.version(checkout / "nniweb") == f"{RELEASE}.dev0"


def test_after_a_release_the_next_one_has_another_number() -> None:
    """Else what is built later would count as older than the release."""
    if TAG in version.tags(ROOT):
        return
    known = subprocess.run(["git", "tag", "--list", TAG, "--merged", "HEAD"], cwd=ROOT, text=True, capture_output=True,
                           check=False).stdout.split()
    assert known == [], f"{TAG} is tagged: raise NEXT_RELEASE in nniweb/version.py"


# --- whether it can be released ------------------------------------------------------------------


def test_a_tagged_clean_commit_with_its_section_is_a_release(checkout: Path) -> None:
    tag(checkout)
    assert problems(checkout) == []


def test_all_that_is_missing_is_told_at_once(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text(f"# Changelog\n\n## {RELEASE} (not released yet)\n\n- News.\n")
    (checkout / "install.md").write_text("pip install nniweb-0.0.1-py3-none-any.whl, image: nniweb:0.0.2\n")
    (checkout / "left over").touch()
    said = problems(checkout)
    assert len(said) == 5
    assert said[0].startswith("3 files differ from the commit, such as CHANGELOG.md.")
    assert f'git tag -a {TAG} -m "NNI Web {RELEASE}"' in said[1]
    assert f'is "{RELEASE} (not released yet)"' in said[2]
    assert said[3:] == [f"install.md:1 names version {old}. It must be {RELEASE}." for old in ("0.0.1", "0.0.2")]


def test_a_tag_of_another_release_is_named(checkout: Path) -> None:
    tag(checkout, "v99.0.0")
    [said] = problems(checkout)
    assert said.startswith("This commit is tagged v99.0.0, and nniweb/version.py says that the next release is "
                           f"{RELEASE}")


def test_an_empty_section_says_nothing_to_users(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## {RELEASE} (2026-12-01)\n\n## 0.1.0 (2026-11-21)\n\n- Old.\n")
    git(checkout, "commit", "-qam", "emptied")
    tag(checkout)
    [said] = problems(checkout)
    assert said == f"The section {RELEASE} of CHANGELOG.md is empty. Say what has changed for users."


def test_the_announcement_is_the_section_alone() -> None:
    text = "# Changelog\n\n## 1.2.0 (2026-12-01)\n\n- A.\n- B.\n\n## 1.1.0 (2026-11-01)\n\n- C.\n"
    assert changes_of(text, "1.2.0") == "- A.\n- B."
    assert changes_of(text, "1.1.0") == "- C."
    assert changes_of(text, "1.0.0") == ""


def test_without_being_a_release_nothing_is_built_and_dist_stays(checkout: Path, tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "kept").touch()
    done = subprocess.run([sys.executable, "-m", "release", "--checkout", str(checkout), "--dist", str(dist)],
                          cwd=ROOT / "scripts", text=True, capture_output=True, check=False)
    assert done.returncode == 1
    assert "Nothing was built, because this is no release yet:\n- This commit has no tag of a release" in done.stderr
    assert [file.name for file in dist.iterdir()] == ["kept"]


# --- archives ------------------------------------------------------------------------------------


def archive_of(folder: Path, name: str, mode: int, at: float, order: list[str]) -> Path:
    """An archive of two files as a machine with other clocks, users and habits makes it."""
    path = folder / name / "nniweb-1.tar.gz"
    path.parent.mkdir()
    with tarfile.open(path, "w:gz") as archive:
        for file in order:
            member = tarfile.TarInfo(f"nniweb-1/{file}")
            content = f"content of {file}".encode()
            member.size, member.mode, member.mtime = len(content), mode, int(at)
            member.uid = member.gid = mode
            member.uname = name
            archive.addfile(member, io.BytesIO(content))
    return path


def test_an_archive_is_the_same_bytes_whoever_made_it(tmp_path: Path) -> None:
    one = archive_of(tmp_path, "ada", 0o664, 1_700_000_000, ["a.py", "b.py"])
    other = archive_of(tmp_path, "bob", 0o600, 1_800_000_000, ["b.py", "a.py"])
    assert one.read_bytes() != other.read_bytes()
    for archive in (one, other):
        make_reproducible(archive, 1_750_000_000)
    assert one.read_bytes() == other.read_bytes()
    with tarfile.open(one) as archive:
        assert [(member.name, member.mtime, member.mode, member.uid) for member in archive] == [
            ("nniweb-1/a.py", 1_750_000_000, 0o644, 0), ("nniweb-1/b.py", 1_750_000_000, 0o644, 0)]
        content = archive.extractfile("nniweb-1/a.py")
        assert content is not None
        assert content.read() == b"content of a.py"


def test_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    for name in ("b.whl", "a.tar.gz"):
        (tmp_path / name).write_text(name)
    write_checksums(tmp_path, [tmp_path / "b.whl", tmp_path / "a.tar.gz"])
    done = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, text=True,
                          capture_output=True, check=True)
    assert done.stdout == "a.tar.gz: OK\nb.whl: OK\n"


def test_the_bill_names_the_release_and_what_lies_inside_the_wheel() -> None:
    document: dict[str, Any] = {
        "metadata": {"component": {"name": "nniweb", "bom-ref": "root-component", "type": "application"}},
        "components": [{"name": "nniweb", "bom-ref": "nniweb==1.2.3", "version": "1.2.3"},
                       {"name": "Django", "bom-ref": "Django==5", "version": "5"}],
        "dependencies": [{"ref": "root-component", "dependsOn": ["nniweb==1.2.3"]},
                         {"ref": "nniweb==1.2.3", "dependsOn": ["Django==5"]}, {"ref": "Django==5"}]}
    complete(document, ROOT, Path("nniweb-1.2.3-py3-none-any.whl"))
    assert document["metadata"]["component"]["purl"] == "pkg:pypi/nniweb@1.2.3"
    named = {one["name"]: one for one in document["components"]}
    assert set(named) == {"Django", "echarts", "swagger-ui-dist", "mkdocs-material"}
    assert named["echarts"]["purl"].startswith("pkg:npm/echarts@")
    assert named["echarts"]["hashes"][0]["alg"] == "SHA-512"
    assert len(named["echarts"]["hashes"][0]["content"]) == 128
    [needs] = [one["dependsOn"] for one in document["dependencies"] if one["ref"] == "root-component"]
    assert needs == sorted(["Django==5", "npm:echarts", "npm:swagger-ui-dist", "theme"])

"""The keeper's zipapp."""

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import trialkeeper
from trainingservice.keeper.keeper_bundle import build_keeper, bundle_bytes, keeper_bytes


def test_the_same_sources_give_the_same_bytes(tmp_path):
    package = tmp_path / "trialkeeper"
    (package / "nni").mkdir(parents=True)
    (package / "__pycache__").mkdir()
    (package / "__init__.py").write_text("")
    (package / "nni" / "__init__.py").write_text("x = 1\n")
    first = bundle_bytes(package)
    os.utime(package / "__init__.py", (1, 1))
    (package / "__init__.py").chmod(0o600)
    (package / "__pycache__" / "left.py").write_text("not ours")
    assert bundle_bytes(package) == first
    (package / "__init__.py").write_text("# another keeper\n")
    assert bundle_bytes(package) != first


def test_the_bundle_is_named_by_its_hash_and_built_once(tmp_path):
    bundle = build_keeper(tmp_path / "keepers")
    content = bundle.path.read_bytes()
    assert bundle.sha256 == hashlib.sha256(content).hexdigest()
    assert bundle.path.name == f"keeper-{bundle.sha256[:16]}.pyz"
    before = bundle.path.stat()
    assert build_keeper(tmp_path / "keepers") == bundle
    assert bundle.path.stat().st_ino == before.st_ino
    assert [path.name for path in (tmp_path / "keepers").iterdir()] == [bundle.path.name]


def test_a_damaged_bundle_is_built_anew(tmp_path):
    bundle = build_keeper(tmp_path)
    bundle.path.write_bytes(b"half of it")
    assert build_keeper(tmp_path).path.read_bytes() == keeper_bytes()


def test_it_holds_the_keeper_and_the_nni_module_apart_from_it(tmp_path):
    names = zipfile.ZipFile(build_keeper(tmp_path).path).namelist()
    assert "__main__.py" in names
    assert "trialkeeper/contract.py" in names
    assert not any(name.startswith("trialkeeper/nni/") for name in names)
    here = Path(trialkeeper.__file__).parent
    sources = {f"trialkeeper/{path.relative_to(here).as_posix()}" for path in here.rglob("*.py")}
    in_bundle = {name.replace("for_trials/", "trialkeeper/") for name in names if name != "__main__.py"}
    assert in_bundle == sources


def test_it_is_small_and_its_modules_can_be_imported_from_it(tmp_path):
    bundle = build_keeper(tmp_path)
    assert bundle.path.stat().st_size < 1024 * 1024
    code = "import sys; sys.path.insert(0, sys.argv[1]); from trialkeeper import contract; print(contract.__file__)"
    result = subprocess.run([sys.executable, "-I", "-c", code, str(bundle.path)], capture_output=True, text=True,
                            check=True)
    assert result.stdout.startswith(str(bundle.path))

"""The keeper's zipapp."""

import hashlib
import io
import marshal
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import trialkeeper
from tests.trialkeeper.keeper_run import NO_OLD_PYTHON, ROOT, old_python
from trainingservice.keeper.keeper_bundle import build_keeper, bundle_bytes, compiled_keeper_bytes, keeper_bytes

#: Says from which file a Python imports a module of the zipapp, and shows a traceback out of it.
IMPORT = """
import sys, traceback
sys.path.insert(0, sys.argv[1])
from trialkeeper import whole_number
print(whole_number.__file__)
try:
    whole_number.whole_number(1)
except AttributeError:
    print(traceback.format_exc())
"""


def imported_by(python: str, bundle: Path) -> tuple[str, str]:
    done = subprocess.run([python, "-I", "-c", IMPORT, str(bundle)], capture_output=True, text=True, check=True)
    file, _, shown = done.stdout.partition("\n")
    return file, shown


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
    assert build_keeper(tmp_path).path.read_bytes() == compiled_keeper_bytes()


def test_it_holds_the_keeper_and_the_nni_module_apart_from_it(tmp_path):
    names = [name for name in zipfile.ZipFile(build_keeper(tmp_path).path).namelist() if not name.endswith("c")]
    assert "__main__.py" in names
    assert "trialkeeper/contract.py" in names
    assert not any(name.startswith("trialkeeper/nni/") for name in names)
    here = Path(trialkeeper.__file__).parent
    sources = {f"trialkeeper/{path.relative_to(here).as_posix()}" for path in here.rglob("*.py")}
    in_bundle = {name.replace("for_trials/", "trialkeeper/") for name in names if name != "__main__.py"}
    assert in_bundle == sources


def test_what_travels_with_each_trial_has_the_sources_alone_and_room_in_a_config_map():
    assert len(keeper_bytes()) < 1024 * 1024
    assert all(name.endswith(".py") for name in zipfile.ZipFile(io.BytesIO(keeper_bytes())).namelist())


def test_it_is_small_and_its_modules_are_imported_from_it_as_they_were_compiled(tmp_path):
    bundle = build_keeper(tmp_path)
    assert bundle.path.stat().st_size < 2 * 1024 * 1024
    file, shown = imported_by(sys.executable, bundle.path)
    assert file == f"{bundle.path}/trialkeeper/whole_number.pyc"
    # the line of the source, which is in the zipapp
    assert 'File "trialkeeper/whole_number.py", line 1' in shown
    assert "digits = digits.strip()" in shown


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_a_python_of_another_version_takes_the_sources(tmp_path, version):
    python = old_python(version)
    if python is None:
        pytest.skip(NO_OLD_PYTHON % version)
    bundle = build_keeper(tmp_path)
    file, shown = imported_by(python, bundle.path)
    assert file == f"{bundle.path}/trialkeeper/whole_number.py"
    assert "digits = digits.strip()" in shown


def test_the_bytes_do_not_depend_on_what_the_process_holds_and_what_python_has_kept(tmp_path):
    package = tmp_path / "trialkeeper"
    shutil.copytree(Path(trialkeeper.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    code = ("import sys; from pathlib import Path; from trainingservice.keeper.keeper_bundle import bundle_bytes\n"
            "sys.stdout.buffer.write(bundle_bytes(Path(sys.argv[1]), compiled=True))")
    for seed in ("1", "2"):
        done = subprocess.run([sys.executable, "-c", code, str(package)], capture_output=True, check=True,
                              cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed})
        assert done.stdout == compiled_keeper_bytes()


def test_code_that_python_has_kept_of_an_older_source_is_not_taken(tmp_path):
    package = tmp_path / "trialkeeper"
    package.mkdir()
    (package / "__init__.py").write_text("which = 'old'\n")
    subprocess.run([sys.executable, "-c", "import trialkeeper"], check=True, cwd=tmp_path,
                   env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"})
    assert list(package.glob("__pycache__/*.pyc"))
    (package / "__init__.py").write_text("which = 'new'\n")
    os.utime(package / "__init__.py", (1, 1))
    archive = zipfile.ZipFile(io.BytesIO(bundle_bytes(package, compiled=True)))
    assert b"new" in archive.read("trialkeeper/__init__.pyc")


@pytest.mark.parametrize("damage", [b"", b"cut"])
def test_what_was_compiled_is_kept_for_the_next_process_and_compiled_anew_where_it_is_damaged(tmp_path, damage):
    package = tmp_path / "trialkeeper"
    (package / "nni").mkdir(parents=True)
    for name in ("__init__.py", "nni/__init__.py", "nni/seldom.py"):
        (package / name).write_text("which = 'ours'\n")
    content = bundle_bytes(package, compiled=True)
    kept = list(package.rglob("__pycache__/*.pyc"))
    assert len(kept) == 3
    before = [path.stat().st_ino for path in kept]
    assert bundle_bytes(package, compiled=True) == content
    assert [path.stat().st_ino for path in kept] == before
    for path in kept:
        path.write_bytes(path.read_bytes()[:16] + damage)
    assert bundle_bytes(package, compiled=True) == content


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same(tmp_path, monkeypatch):
    package = tmp_path / "trialkeeper"
    package.mkdir()
    (package / "__init__.py").write_text("which = 'ours'\n")
    (package / "__pycache__").write_text("no folder")
    content = bundle_bytes(package, compiled=True)
    (package / "__pycache__").unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert bundle_bytes(package, compiled=True) == content
    assert not (package / "__pycache__").exists()


def test_docstrings_of_functions_are_not_compiled_and_text_that_they_use_is(tmp_path):
    package = tmp_path / "trialkeeper"
    package.mkdir()
    (package / "__init__.py").write_text('"""Of the module."""\n')
    (package / "texts.py").write_text(
        'def told():\n    """Nobody reads this."""\n    return "said"\n\n\n'
        'def same():\n    """same"""\n    return "same"\n\n\n'
        'def several():\n    return list("a" + each for each in "bc"), (lambda: "first")()\n')
    path = tmp_path / "bundle.pyz"
    path.write_bytes(bundle_bytes(package, compiled=True))
    assert b"Nobody reads this" not in zipfile.ZipFile(path).read("trialkeeper/texts.pyc")
    code = ("import sys; sys.path.insert(0, sys.argv[1]); from trialkeeper import texts\n"
            "print(texts.__file__[-1], texts.told(), texts.told.__doc__, texts.same(), texts.several())")
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "c said None same (['ab', 'ac'], 'first')\n"


def lines_of(code):
    """Of each instruction, also of functions inside."""
    here = {place: line for start, end, line in code.co_lines() for place in range(start, end, 2)}
    inside = [lines_of(each) for each in code.co_consts if isinstance(each, type(code))]
    return code.co_name, here, inside


def test_tracebacks_have_the_lines_of_the_source():
    bundle = zipfile.ZipFile(io.BytesIO(compiled_keeper_bytes()))
    for module in ("keeper", "agent", "journal"):
        source = Path(trialkeeper.__file__).with_name(f"{module}.py").read_text()
        compiled = marshal.loads(bundle.read(f"trialkeeper/{module}.pyc")[16:])
        assert lines_of(compiled) == lines_of(compile(source, module, "exec", dont_inherit=True))

"""A platform in a stranger's package: installed with pip beside our wheel, where it passes the suite."""

import re
import shlex
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LOOK = """
import trainingservice, trialkeeper, my_platform
from trainingservice.platforms import load_platform, platform_names
print(trainingservice.__file__, trialkeeper.__file__, my_platform.__file__, sep="\\n")
assert "mine" in platform_names()
print(load_platform("mine").settings_model.model_json_schema()["properties"]["slots"]["default"])
"""


def run(folder: Path, command: str) -> str:
    """What the text of a shell printed in the stranger's environment; it must succeed, and knows nothing of ours."""
    variables = {"PATH": f"{folder}/venv/bin:/usr/local/bin:/usr/bin:/bin", "HOME": str(folder),
                 "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                 "PYTEST_ADDOPTS": "-q -n 2 -p no:cacheprovider -p no:django"}
    done = subprocess.run(["sh", "-ec", command], cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=900, check=False, env=variables)
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def commands_of_the_guide() -> list[str]:
    """Its block of shell: how the packages are installed, how the tests are run."""
    [block] = re.findall(r"^<!-- run -->\n```sh\n(.*?)^```$", (ROOT / "docs" / "write-a-platform.md").read_text(),
                         re.MULTILINE | re.DOTALL)
    return str(block).splitlines()


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """A folder with a virtual environment, into which both packages were installed, and the stranger's package.

    The libraries are those of our own environment, so that nothing is fetched from anywhere.
    """
    folder = tmp_path_factory.mktemp("stranger")
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    (folder / "nniweb" / "dist").mkdir(parents=True)
    shutil.copy(wheel, folder / "nniweb" / "dist")
    shutil.copytree(ROOT / "examples" / "my_platform", folder / "my_platform", ignore=skip)
    venv.create(folder / "venv", with_pip=False)
    [packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install, _ = commands_of_the_guide()
    run(folder, install)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_installed_packages_are_used_and_the_platform_is_found_by_its_entry_point(stranger: Path) -> None:
    *files, slots = run(stranger, f"python -c {shlex.quote(LOOK)}").split()
    assert all(Path(file).is_relative_to(stranger / "venv") for file in files)
    assert slots == "4"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_strangers_own_tests_pass_the_conformance_suite_among_them(stranger: Path) -> None:
    _, test = commands_of_the_guide()
    said = run(stranger, test)
    passed = int(said.rpartition(" passed")[0].split()[-1])
    assert passed > 50, said


def test_the_example_imports_nothing_of_ours_but_trainingservice() -> None:
    files = list((ROOT / "examples" / "my_platform" / "my_platform").glob("*.py"))
    assert {"service.py", "small_service.py"} <= {file.name for file in files}
    for file in files:
        imported = {line.split()[1].partition(".")[0] for line in file.read_text().splitlines()
                    if line.startswith(("import ", "from "))}
        assert not imported & {"nniweb", "trialkeeper", "django"}

"""What is in the wheel that "make wheel" builds, and that it does not come about without the browser libraries."""

import shutil
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest
from docs_site.build import built_site

from tests.installed.wheel_build import ROOT, build_output, copy_checkout


@pytest.mark.slow
def test_the_wheel_holds_the_packages_all_files_of_the_pages_and_the_browser_libraries(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    python = {str(path.relative_to(ROOT)) for package in ("nniweb", "trainingservice", "trialkeeper", "hydra_plugins")
              for path in (ROOT / package).rglob("*.py")}
    pages = {f"nniweb/bundled/{path.relative_to(ROOT)}" for folder in ("templates", "static")
             for path in (ROOT / folder).rglob("*") if path.is_file()}
    assert sorted((python | pages) - held) == []
    libraries = {name.removeprefix("nniweb/bundled/node_modules/") for name in held if "node_modules" in name}
    assert {"echarts/dist/echarts.min.js", "echarts/dist/echarts.common.min.js", "echarts/LICENSE", "echarts/NOTICE",
            "swagger-ui-dist/swagger-ui-bundle.js", "swagger-ui-dist/swagger-ui.css",
            "swagger-ui-dist/LICENSE"} <= libraries
    assert "nniweb/bundled/examples/quadratic/trial.py" in held
    built = built_site()  # once: it reads all that the site is made of, to see that nothing has changed
    site = {f"nniweb/bundled/docs-site/{path.relative_to(built)}" for path in built.rglob("[!.]*") if path.is_file()}
    assert site == {name for name in held if "docs-site" in name}
    assert not [name for name in held if name.endswith((".map", ".pyc")) or "tests/" in name]


@pytest.mark.slow
def test_the_wheel_brings_the_command_its_needs_and_the_extras(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [points] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        parser = ConfigParser()
        parser.read_string(archive.read(points).decode())
        metadata = archive.read(points.replace("entry_points.txt", "METADATA")).decode().splitlines()
    assert parser["console_scripts"]["nniweb"] == "nniweb.command_line.program:main"
    assert any(line.startswith("Requires-Dist: Django==") for line in metadata)
    assert {"Provides-Extra: scale", "Provides-Extra: tuners", "Provides-Extra: azure", "Provides-Extra: oidc",
            "Provides-Extra: tensorboard", "Provides-Extra: s3"} \
        <= set(metadata)


@pytest.mark.slow
def test_without_the_documentation_site_no_wheel_is_built_and_a_sentence_says_what_to_do(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "nniweb")
    shutil.rmtree(checkout / "docs-site")
    done = build_output(checkout, tmp_path / "dist")
    assert done.returncode != 0
    assert "docs-site is missing" in done.stdout
    assert "make docs" in done.stdout
    assert list((tmp_path / "dist").glob("*.whl")) == []


@pytest.mark.slow
def test_without_the_browser_libraries_no_wheel_is_built_and_a_sentence_says_what_to_do(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "nniweb")
    (checkout / "node_modules").unlink()
    (checkout / "node_modules" / "echarts" / "dist").mkdir(parents=True)
    shutil.copy(ROOT / "node_modules" / "echarts" / "dist" / "echarts.min.js", checkout / "node_modules/echarts/dist")
    done = build_output(checkout, tmp_path / "dist")
    assert done.returncode != 0
    assert "node_modules/echarts/dist/echarts.common.min.js is missing" in done.stdout
    assert "npm ci --omit=dev" in done.stdout
    assert list((tmp_path / "dist").glob("*.whl")) == []

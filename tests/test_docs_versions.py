"""The documentation of several versions in one folder, which any web server can serve."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from docs_site.build import BuildFailed, build, built_site
from docs_site.versions import add_version, main

import nniweb
from tests.small_docs_site import small_site


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return small_site(tmp_path / "small")


@pytest.mark.slow
def test_each_version_has_its_folder_and_the_newest_release_is_where_a_reader_begins(config: Path, tmp_path: Path
                                                                                     ) -> None:
    host = tmp_path / "host"
    for version in ("0.9.0", "0.11.0.dev0", "0.10.0"):
        (add_version(host, version, config) / "as it was").touch()

    assert json.loads((host / "versions.json").read_text()) == [
        {"version": "dev", "title": "0.11.0.dev0", "aliases": []},
        {"version": "0.10.0", "title": "0.10.0", "aliases": ["latest"]},
        {"version": "0.9.0", "title": "0.9.0", "aliases": []}]
    assert all((host / folder / "as it was").is_file() for folder in ("dev", "0.10.0", "0.9.0"))
    assert 'url=0.10.0/index.html"' in (host / "index.html").read_text()
    assert 'url=../0.10.0/index.html"' in (host / "latest" / "index.html").read_text()
    for folder in ("dev", "0.10.0", "0.9.0"):
        page = (host / folder / "index.html").read_text()
        [settings] = re.findall(r'<script id="__config" type="application/json">(.*?)</script>', page)
        assert json.loads(settings)["version"] == {"provider": "mike", "default": "latest"}
    assert sorted(path.name for path in host.iterdir()) == ["0.10.0", "0.9.0", "dev", "index.html", "latest",
                                                            "versions.json"]


def test_what_cannot_be_built_or_read_changes_nothing(config: Path, tmp_path: Path) -> None:
    host = tmp_path / "host"
    (host / "1.0.0").mkdir(parents=True)
    (host / "versions.json").write_text('[{"version": "1.0.0", "title": "1.0.0", "aliases": ["latest"]}]')
    (host / "index.html").write_text("leads to 1.0.0")
    before = contents(host)
    (config.parent / "docs" / "index.md").write_text("[gone](gone.md)\n")
    with pytest.raises(BuildFailed, match="gone"):
        add_version(host, "1.1.0", config)
    assert contents(host) == before
    (host / "versions.json").write_text("[{}]")
    with pytest.raises(ValueError, match="is no list of versions. Restore it"):
        add_version(host, "1.1.0", config)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_without_a_folder_the_program_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["--help"]) == 2
    assert "python -m docs_site.versions FOLDER" in capsys.readouterr().out


def test_the_servers_own_documentation_says_its_version_in_the_header_and_has_no_selector() -> None:
    page = (built_site() / "gpus.html").read_text()
    assert re.search(rf'<span class="md-ellipsis">\s*NNI Web {re.escape(nniweb.__version__)}\s*</span>', page)
    [settings] = re.findall(r'<script id="__config" type="application/json">(.*?)</script>', page)
    assert not json.loads(settings).get("version")


@pytest.mark.slow
def test_the_site_is_the_same_bytes_each_time_it_is_built(tmp_path: Path) -> None:
    """It lies in the wheel, which anybody can build again."""
    build(tmp_path / "again")
    first = contents(built_site())
    first.pop(Path(".built-from"))
    again = contents(tmp_path / "again")
    assert sorted(str(name) for name in first.keys() ^ again.keys()) == []
    assert [str(name) for name in first if first[name] != again[name]] == []

"""The documentation of several versions in one folder, which any web server can serve."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from docs_site.build import BuildFailed, built_site
from docs_site.versions import add_version, main

import nniweb

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A site of one page, with our theme."""
    docs = tmp_path / "small" / "docs"
    docs.mkdir(parents=True)
    (docs / "index.md").write_text("# Start\n\nA page.\n")
    config = tmp_path / "small" / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT}/mkdocs.yml\ndocs_dir: docs\nnav: [index.md]\nplugins: []\n"
                      f"hooks: [{tmp_path}/small/selector.py]\n"
                      f"theme: {{custom_dir: {ROOT}/scripts/docs_site/theme, logo: null}}\n")
    # our own hooks without the pages from elsewhere
    (tmp_path / "small" / "selector.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'scripts')!r})\nfrom docs_site.hooks import on_config\n")
    return config


def test_each_version_has_its_folder_and_the_newest_release_is_where_a_reader_begins(config: Path, tmp_path: Path
                                                                                     ) -> None:
    host = tmp_path / "host"
    for version in ("0.9.0", "0.10.0", "0.11.0.dev0"):
        add_version(host, version, config)
    (host / "0.9.0" / "kept").touch()
    add_version(host, "0.10.0", config)

    assert json.loads((host / "versions.json").read_text()) == [
        {"version": "dev", "title": "0.11.0.dev0", "aliases": []},
        {"version": "0.10.0", "title": "0.10.0", "aliases": ["latest"]},
        {"version": "0.9.0", "title": "0.9.0", "aliases": []}]
    assert (host / "0.9.0" / "kept").is_file()
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
    add_version(host, "1.0.0", config)
    before = {path.relative_to(host): path.read_bytes() for path in host.rglob("*") if path.is_file()}
    (config.parent / "docs" / "index.md").write_text("[gone](gone.md)\n")
    with pytest.raises(BuildFailed, match="gone"):
        add_version(host, "1.1.0", config)
    assert before == {path.relative_to(host): path.read_bytes() for path in host.rglob("*") if path.is_file()}
    (host / "versions.json").write_text("[{}]")
    with pytest.raises(ValueError, match="is no list of versions. Restore it"):
        add_version(host, "1.1.0", config)


def test_without_a_folder_the_program_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["--help"]) == 2
    assert "python -m docs_site.versions FOLDER" in capsys.readouterr().out


def test_the_servers_own_documentation_says_its_version_in_the_header_and_has_no_selector() -> None:
    page = (built_site() / "gpus.html").read_text()
    assert re.search(rf'<span class="md-ellipsis">\s*NNI Web {re.escape(nniweb.__version__)}\s*</span>', page)
    [settings] = re.findall(r'<script id="__config" type="application/json">(.*?)</script>', page)
    assert not json.loads(settings).get("version")

"""Where MkDocs calls this: pages that lie elsewhere are added, links are changed, and the version is told."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

# MkDocs loads this file alone: its neighbours, and the server, are found so
sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import nniweb  # noqa: E402
from docs_site.build import SELECTOR_VARIABLE  # noqa: E402
from docs_site.links import links_of_site  # noqa: E402
from docs_site.pages import ELSEWHERE, ROOT  # noqa: E402
from docs_site.rest_reference import reference_pages  # noqa: E402


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.copyright = f"NNI Web {nniweb.__version__}"
    if os.environ.get(SELECTOR_VARIABLE):
        config.extra["version"] = {"provider": "mike", "default": "latest"}
    else:  # the header says it
        config.site_name = f"NNI Web {nniweb.__version__}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    texts = {page: (ROOT / source).read_text(encoding="utf-8") for source, page in ELSEWHERE.items()}
    for page, text in {**texts, **reference_pages()}.items():
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "assets/icon.svg", abs_src_path=str(ROOT / "static" / "icon.svg")))
    return files


#: Pages that tell how something came about stand behind those that tell how it is used, when both are found.
_HISTORY, _BOOST = ("decisions/", "changelog."), 0.1


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    if page.file.src_uri.startswith(_HISTORY):
        page.meta["search"] = {"boost": _BOOST}
    return links_of_site(markdown, page.file.src_uri, files.src_uris)

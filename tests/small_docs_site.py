"""A documentation site of one page, with our theme, which is built in a second."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def small_site(folder: Path) -> Path:
    """The ``mkdocs.yml`` of a new one in ``folder``, whose page is ``docs/index.md``."""
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "index.md").write_text("# Start\n\nA page.\n")
    # our own hooks without the pages from elsewhere
    hooks = folder / "selector.py"
    hooks.write_text(f"import sys\nsys.path.insert(0, {str(ROOT / 'scripts')!r})\n"
                     "from docs_site.hooks import on_config\n")
    config = folder / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT}/mkdocs.yml\ndocs_dir: docs\nnav: [index.md]\nplugins: []\nhooks: [{hooks}]\n"
                      f"theme: {{custom_dir: {ROOT}/scripts/docs_site/theme, logo: null}}\n")
    return config

"""What the metadata in pyproject.toml cannot say: version, needs of requirements.txt, and files that are no Python.

Templates, static files, examples, the documentation site and the browser libraries lie at the top of a checkout; a
wheel holds them in ``nniweb/bundled`` (nniweb/storage/own_files.py finds them in either place). The browser libraries
come from npm; ``make docs`` builds the site.
"""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.errors import SetupError

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # not there when a build front end calls this

from nniweb.version import WRITTEN, version  # noqa: E402

#: Folders and files of a checkout that a wheel holds, as patterns. ``.gz``: what the server sends in place of the file.
BUNDLED = ("templates/**/*", "static/**/*", "examples/quadratic/*", "examples/digits/*",
           # what agents read as resources (nniweb/mcp_server/reference.py)
           *(f"docs/{page}.md" for page in ("experiment-config", "external-tuner", "search-space", "skill",
                                            "trial-filter", "tuners", "your-script")))
#: The libraries, and what their licences ask to be handed on with them.
BROWSER_LIBRARIES = {
    "echarts": ("dist/echarts.min.js", "dist/echarts.common.min.js", "LICENSE", "NOTICE", "licenses/*"),
    "swagger-ui-dist": ("swagger-ui-bundle.js", "swagger-ui-bundle.js.LICENSE.txt", "swagger-ui.css", "LICENSE",
                        "NOTICE"),
}
EXTRAS = ("azure", "mcp", "oidc", "otel", "s3", "scale", "tensorboard", "tuners")


class BuildWithFiles(build_py):
    """Builds the packages, and puts the other files beside them."""

    def run(self):
        super().run()
        if self.editable_mode:  # used where it lies: a checkout finds its files by itself
            return
        target = Path(self.build_lib) / "nniweb" / "bundled"
        for source in [*files(ROOT, BUNDLED), *browser_files(), *docs_site()]:
            copy = target / source.relative_to(ROOT)
            self.mkpath(str(copy.parent))
            self.copy_file(str(source), str(copy), preserve_mode=False)
        (Path(self.build_lib) / "nniweb" / WRITTEN).write_text(f"{self.distribution.get_version()}\n")


def files(folder, patterns):
    """The files below a folder that a pattern names, compiled Python left out."""
    return sorted(path for pattern in patterns for path in folder.glob(pattern)
                  if path.is_file() and path.suffix != ".pyc")


def browser_files():
    """The browser libraries' files. A wheel without them would have pages without charts: then none is built."""
    found = []
    for library, patterns in BROWSER_LIBRARIES.items():
        folder = ROOT / "node_modules" / library
        for pattern in patterns:
            here = files(folder, (pattern, f"{pattern}.gz"))
            if not here:
                raise SetupError(f"node_modules/{library}/{pattern} is missing: the browser libraries are no part of "
                                 "the repository. Fetch them, then build again: make packages, or npm ci --omit=dev")
            found += here
    return found


def docs_site():
    """The documentation site's files. Its pages are linked from many others: without it, no wheel."""
    if not (ROOT / "docs-site" / "index.html").is_file():
        raise SetupError("docs-site is missing: the documentation site is no part of the repository. Build it, then "
                         "build again: make docs")
    return files(ROOT, ("docs-site/**/[!.]*",))


def needs(list_file):
    """The lines of a list of requirements, without reasons and options."""
    lines = (ROOT / list_file).read_text().splitlines()
    return [line.partition("#")[0].strip() for line in lines if line.strip() and not line.startswith(("#", "-"))]


setup(version=version(),
      install_requires=needs("requirements.txt"),
      extras_require={name: needs(f"requirements/{name}.txt") for name in EXTRAS},
      cmdclass={"build_py": BuildWithFiles})

"""Virtual environments with a module of their own, for trials that must find the right Python."""

import os
import sysconfig
import venv
from pathlib import Path


def make_environment(folder: Path, *modules: str) -> Path:
    """A virtual environment of this Python, in which these modules can be imported and nothing else. Its folder."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    for module in modules:
        (packages / f"{module}.py").write_text(f"name = {module!r}\n")
    return folder


def shell_with(environment: Path) -> dict[str, str]:
    """The variables of a shell in which it is active."""
    return {"PATH": f"{environment}/bin{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(environment)}

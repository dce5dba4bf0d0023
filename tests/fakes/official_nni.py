"""The official ``nni`` package, in virtual environments of its own, for tests that compare with it.

They are made once; a test that needs one skips with the reason where that fails.
"""

import sys
from pathlib import Path

from tests.fakes.own_environments import python_with

#: The trial's side of older releases needs only these; their other requirements do not exist for today's Python.
_FOR_TRIALS = ["json_tricks", "numpy", "pandas", "pyyaml", "ruamel.yaml", "filelock", "prettytable", "psutil",
               "websockets", "requests", "colorama", "schema", "packaging", "typeguard", "typing_extensions",
               "cloudpickle", "responses", "astor"]
#: Version -> what pip is asked for, one call a list.
INSTALLATIONS = {
    "3.0": [["nni==3.0"]],
    "2.10.1": [["--no-deps", "nni==2.10.1"], _FOR_TRIALS],
    "1.9": [["--no-deps", "nni==1.9"], _FOR_TRIALS],
}


#: Of releases for an older Python, installed with that one.
OLD_INSTALLATIONS = {
    "1.7.1": [["--upgrade", "pip<22"], ["--no-deps", "nni==1.7.1"],
              ["--only-binary", ":all:", "json_tricks", "numpy", "ruamel.yaml", "requests", "colorama", "schema"]],
}


#: The same with all that its nnictl imports, and that its classes of configs need.
NNICTL_INSTALLATIONS = {
    "2.10.1 nnictl": [["--no-deps", "nni==2.10.1"], [*_FOR_TRIALS, "filelock<3.12"]],
    "2.10.1 experiment": [["--no-deps", "nni==2.10.1"], [*_FOR_TRIALS, "filelock<3.12", "typeguard<3"]],
    "1.7.1 nnictl": [["--upgrade", "pip<22"], ["--no-deps", "nni==1.7.1"],
                     ["--only-binary", ":all:", "json_tricks", "numpy", "ruamel.yaml", "requests", "colorama", "schema",
                      "psutil", "prettytable", "astor", "pkginfo"], ["PythonWebHDFS", "netifaces"]],
}


def official_python(version: str, interpreter: str = sys.executable) -> Path:
    """The interpreter of an environment with this version, made with ``interpreter``. Skips the test where there can be
    none.
    """
    wanted = {**INSTALLATIONS, **OLD_INSTALLATIONS, **NNICTL_INSTALLATIONS}[version]
    return python_with("nni", version, wanted, "the official nni", interpreter)

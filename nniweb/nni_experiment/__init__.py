"""``import nniweb.nni_experiment``: NNI's own ``Experiment`` and ``nnictl`` run their experiments on NNI Web.

NNI starts a process for each experiment, the program ``node`` of its package ``nni_node``. This package puts another
one in its place, which launches the experiment on a server and hands NNI's requests on to it. Nothing of NNI is
changed, and nothing of it is imported here. ``python -m nniweb.nni_experiment`` prints a folder that does the same as
an entry of PYTHONPATH. docs/migrate-from-nni.md describes both.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

#: An entry of PYTHONPATH with our ``nni_node``.
FOLDER = Path(__file__).resolve().parent / "for_pythonpath"


def _put_in_place() -> None:
    """Make ``import nni_node`` give ours in this process. Raises ImportError where its program cannot be started."""
    folder = FOLDER / "nni_node"
    if not os.access(folder / "node", os.X_OK):
        raise ImportError(f"{folder / 'node'} is not executable. Install the package nniweb again, or run: chmod +x "
                          f"{folder / 'node'}")
    module = ModuleType("nni_node")
    module.__path__ = [str(folder)]
    sys.modules["nni_node"] = module


_put_in_place()

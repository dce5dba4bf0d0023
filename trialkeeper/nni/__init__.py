"""The part of NNI that a trial uses, for machines where the official ``nni`` package is not installed.

    import nni
    parameters = nni.get_next_parameter()
    nni.report_intermediate_result(0.5)
    nni.report_final_result(0.9)

and, beyond NNI's own package, ``nni.load_checkpoint`` and ``nni.save_checkpoint``.
``nni.keras``, ``nni.lightgbm``, ``nni.lightning``, ``nni.sklearn``, ``nni.transformers`` and ``nni.xgboost`` report for
trainings with these libraries, which they import.
Where another ``nni`` is found on the path, this one steps aside and that one is imported; what only this one has is
found in it, too. It speaks the same file protocol; in addition it wakes the keeper, so that a metric is on its way at
once. Nothing heavy is imported: a trial pays a few milliseconds.

PYTHONPATH stands before the installed packages whatever is done, so this module is imported first and has to step
aside by itself. It therefore runs in any Python that a trial may have, from 3.6 on, as its whole folder does: no
``from __future__ import annotations``, and annotations that name what is not imported are texts.
"""

import os
import sys

TYPE_CHECKING = False  # typing itself would cost more than all the rest
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import ContextManager

    from .checkpoints import Checkpoint


def _other_nni() -> "ModuleSpec | None":
    """The spec of an ``nni`` that is not this one, None where there is none."""
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = sys.path
    sys.path = [entry for entry in path if os.path.abspath(entry) != own]
    try:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: "ModuleSpec | None" = find("nni", None) if find is not None else None
            # a folder without __init__.py that happens to be called nni is not the package
            if spec is not None and spec.loader is not None and spec.origin and spec.origin != __file__:
                return spec
    finally:
        sys.path = path
    return None


def _load(spec: "ModuleSpec") -> None:
    from importlib.util import module_from_spec
    module = module_from_spec(spec)
    sys.modules["nni"] = module  # the import statement takes what stands here in the end
    assert spec.loader is not None
    spec.loader.exec_module(module)
    if hasattr(module, "__path__"):  # nni.keras and others, after all modules of its own
        module.__path__.append(os.path.dirname(os.path.abspath(__file__)))


def load_checkpoint() -> "Checkpoint | None":
    """As in ``checkpoints``, which is loaded by who uses it."""
    from .checkpoints import load_checkpoint
    return load_checkpoint()


def save_checkpoint(path: "str | None" = None, step: "int | None" = None) -> "ContextManager[str]":
    """As in ``checkpoints``, which is loaded by who uses it."""
    from .checkpoints import save_checkpoint
    return save_checkpoint(path, step)


_spec = _other_nni()
if _spec is not None:
    _load(_spec)
else:
    from .trial import (
        get_current_parameter,
        get_experiment_id,
        get_next_parameter,
        get_next_parameters,
        get_sequence_id,
        get_trial_id,
        report_final_result,
        report_intermediate_result,
    )

    __all__ = [
        "get_current_parameter",
        "get_experiment_id",
        "get_next_parameter",
        "get_next_parameters",
        "get_sequence_id",
        "get_trial_id",
        "load_checkpoint",
        "report_final_result",
        "report_intermediate_result",
        "save_checkpoint",
    ]

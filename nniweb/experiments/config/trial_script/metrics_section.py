"""The section ``metrics`` of a config file."""

from __future__ import annotations

from typing import Any

from nniweb.experiments.config.document import ExperimentDocument
from nniweb.experiments.config.fields.walk import nearest
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.trial_script.metric_pattern import metrics_of_pattern
from trainingservice.words.shown_value import shown
from trialkeeper.line_metrics import VALUE

_FIELD = "metrics"


def read_metrics(document: ExperimentDocument, findings: Findings) -> dict[str, Any]:
    """As ``ExperimentSettings.metrics`` has it, after adding what is wrong with it."""
    asked = document.metrics
    if asked is None or findings.has_error(_FIELD):
        return {}
    written = asked.model_dump(by_alias=True, exclude_defaults=True)
    if isinstance(asked.tensorboard, str):
        written["tensorboard"] = [asked.tensorboard]
    known = _known_metrics(written)
    if known is not None and not known:
        findings.add(_FIELD, "names no place where metrics are read; give stdout, stderr, files, tensorboard or mlflow")
        return {}
    if document.multi_phase:
        findings.add(_FIELD, "cannot be given together with multiPhase: only a trial that imports nni asks for further "
                             "parameters")
    result = asked.result or _default(document, known)
    if not result:
        findings.add((_FIELD, "result"), "is required here; give the name of the metric that is the trial's result")
    elif known is not None and result not in known:
        findings.add((_FIELD, "result"), f"is {shown(result)}, but only these are read: {', '.join(sorted(known))}"
                                         f"{nearest(result, known)}")
    return {**written, "result": result}


def _default(document: ExperimentDocument, known: set[str] | None) -> str:
    """The result where the file names none: the main objective, or the only metric that can be found; "" for none."""
    if document.objectives and (known is None or document.objectives[0].metric in known):
        return document.objectives[0].metric
    if known is not None and (VALUE in known or len(known) == 1):
        return VALUE if VALUE in known else next(iter(known))
    return ""


def _known_metrics(written: dict[str, Any]) -> set[str] | None:
    """Names of the metrics that can be found; None where not all of them are known."""
    if "files" in written or "mlflow" in written:
        return None
    known = set(written.get("tensorboard", ()))
    for stream in ("stdout", "stderr"):
        if stream in written:
            found = metrics_of_pattern(written[stream])
            if found is None:
                return None
            known |= found
    return known

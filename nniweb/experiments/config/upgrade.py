"""A v1 file rewritten as a v2 file, by the table with which v1 files are read."""

from __future__ import annotations

from typing import Any

from nniweb.experiments.config.document import ExperimentDocument
from nniweb.experiments.config.errors import ConfigError, ConfigInvalid
from nniweb.experiments.config.fields.walk import model_fields
from nniweb.experiments.config.v1_conversion import PLATFORM_KEY, convert, is_v1
from nniweb.experiments.config.yaml_positions import read_text


def upgraded(text: str) -> tuple[dict[str, Any], list[str]]:
    """The v2 form as a document, in the order of the reference page, and notes about what was left out.

    Paths and secrets stay as they are written. Raises ConfigInvalid.
    """
    source = read_text(text)
    if not is_v1(source.data):
        raise ConfigInvalid([ConfigError("", f"is already in the v2 form, because it has no {PLATFORM_KEY}")])
    document, findings = convert(source)
    findings.raise_if_any()
    known = [*model_fields((ExperimentDocument,)), "trainingService"]
    ordered = {key: document[key] for key in sorted(document, key=known.index)}
    if ordered.get("useAnnotation") is False:
        del ordered["useAnnotation"]
    section = ordered["trainingService"]
    ordered["trainingService"] = {"platform": section.pop("platform"), **section}
    return ordered, list(findings.notes)

"""The section ``codeVariants``: what a trial may have instead of files of the experiment's code."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from nniweb.experiments.config.findings import Findings
from trainingservice.cluster_settings import SettingsModel
from trainingservice.code.git_pattern import read_pattern
from trainingservice.words.shown_value import shown


def parse_kilobytes(value: Any) -> Any:
    """Bytes of a size with a unit; everything else as it is. Raises ValueError."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"([0-9]{1,9}) *(k|kb|kib)?", value.strip().lower())
    if found is None:
        raise ValueError('must be a number of bytes, or a size such as "64KB"')
    return int(found[1]) * (1024 if found[2] else 1)


def as_path_pattern(pattern: str) -> str:
    """The same pattern of paths in the code. Raises ValueError where it can match none."""
    if read_pattern(pattern.encode().decode("latin-1")) is None:
        raise ValueError(f"{shown(pattern)} is no pattern that matches a path. Write *.py, conf/** or train.py, as in "
                         ".nniignore")
    return pattern


#: Bytes of the changed files of one variant: the largest number that may be asked for, and what is the default.
MOST_OF_A_VARIANT, USUAL_VARIANT = 256 * 1024, 64 * 1024


class CodeVariantsDocument(SettingsModel):
    """Which changes to its code a trial may bring. true in its place: with these defaults."""

    paths: list[Annotated[str, Field(min_length=1, max_length=200), AfterValidator(as_path_pattern)]] = Field(
        ["*"], min_length=1, max_length=100, description=(
            "Patterns of the files that may be changed, added and removed, in the syntax of .nniignore: *.py in any "
            "folder, conf/** for all that is in conf, !conf/data.yml for what may not. Default: all files."))
    max_bytes: Annotated[int, BeforeValidator(parse_kilobytes, json_schema_input_type=int | str), Field(
        ge=1, le=MOST_OF_A_VARIANT)] = Field(USUAL_VARIANT, description=(
            "The most that the changed files of one variant may have together: bytes, or with a unit (64KB). At most "
            "256KB. Default: 64KB."))


def read_code_variants(asked: bool | CodeVariantsDocument | None, *, use_annotation: bool, multi_phase: bool,
                       findings: Findings) -> dict[str, Any]:
    """As ``ExperimentSettings.code_variants`` has it."""
    if not asked:
        return {}
    if use_annotation:
        findings.add("codeVariants", "cannot be given together with useAnnotation: trials get code in which the "
                                     "annotations are carried out, which is not the code that you see")
    if multi_phase:
        findings.add("codeVariants", "cannot be given together with multiPhase: the tuner would be told results of "
                                     "changed code")
    document = CodeVariantsDocument() if asked is True else asked
    return {"paths": list(document.paths), "maxBytes": document.max_bytes}

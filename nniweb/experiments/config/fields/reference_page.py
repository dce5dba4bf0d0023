"""Writes docs/experiment-config.md from the models, so that the page always agrees with the code.

``python -m nniweb.experiments.config.fields.reference_page > docs/experiment-config.md``
"""

from __future__ import annotations

import sys

from pydantic import BaseModel

from nniweb.experiments.config.document import (
    INHERITABLE,
    BudgetDocument,
    CheckpointsDocument,
    ClusterEntryDocument,
    ExperimentDocument,
    FailedTrialsDocument,
    ObjectiveDocument,
    RetentionDocument,
    RetryDocument,
    TunerDocument,
)
from nniweb.experiments.config.fields.description import default_words, inner_models, keys_of, type_words
from nniweb.experiments.config.fields.walk import file_key
from nniweb.experiments.config.trial_script.code_variants import CodeVariantsDocument
from nniweb.experiments.config.v1_conversion import V1_CLASS_FILES, V1_DROPPED, V1_FIELDS
from nniweb.tuning.algorithms import ASSESSORS, TUNERS, Algorithm
from trainingservice.base import TrainingService
from trainingservice.platforms import ALIASES, BUILT_IN, load_platform
from trainingservice.shared_folder.shared_storage import SharedStorage

INTRODUCTION = """\
# Experiment config files

`python -m nniweb.experiments.config.fields.reference_page` generates this page from the code; do not edit it.

A config file is YAML or JSON, in one of the two forms of NNI:

* **v2** (NNI 2.x and 3.0) has a field `trainingService`. Letter case and underscores in field names are ignored:
  `trialCommand`, `trial_command` and `TRIALCOMMAND` are the same field.
* **v1** (NNI 1.x) has a field `trainingServicePlatform`. Field names are exact. The file is converted to the v2 form;
  messages use the names of the file.

These rules apply to both forms:

* An unknown field is an error, and the message names the most similar known field. A field without a value counts as
  left out.
* Relative paths start from the folder of the file. `~` is the home folder of the server's user.
* A duration is a number with a unit (`30s`, `10m`, `1.5h`, `2d`), several of them (`1h30m`), or whole seconds. It is
  rounded up to whole seconds.
* GPU numbers are a list (`[0, 1]`), one number, or text (`"0,1"`).
* `1e-3` is a number, also where YAML 1.1 reads it as text. A duplicate key is an error.
* A file has at most 1,000,000 characters, 50,000 keys and values (the content of an alias or `<<` counts at each use;
  in JSON 100,000 values), 50 levels of nesting, keys of at most 1,000 characters, and numbers of at most 1,100
  characters. The same limits apply to YAML files that it names. At most 1,000 errors of a file are reported. A file of
  more than 4,000,000 bytes is not opened.
* The server checks your permission to use the platform or cluster before it reads a file that the text names.
* Exactly one of `trainingService`, `cluster` and `clusters` is required. It says where the trials run.
"""


def render() -> str:
    """The whole page."""
    parts = [
        INTRODUCTION,
        "## The file\n\n" + _table(ExperimentDocument, V1_FIELDS, ""),
        "`" + "`, `".join(INHERITABLE) + "` can also be given in the trainingService section, which takes "
                                         "precedence.\n",
        "## tuner, assessor, advisor\n\n" + _table(TunerDocument, _of_tuner(), ""),
        _algorithms("Tuner", TUNERS), _algorithms("Assessor", ASSESSORS),
        "## objectives\n\n" + _table(ObjectiveDocument, {}, ""),
        "## clusters\n\n" + _table(ClusterEntryDocument, {}, ""),
        "## retry\n\n" + _table(RetryDocument, {}, ""),
        "## failedTrials\n\n" + _table(FailedTrialsDocument, {}, ""),
        "## budget\n\n" + _table(BudgetDocument, {}, ""),
        "## retention\n\n" + _table(RetentionDocument, {}, ""),
        "## checkpoints\n\n" + _table(CheckpointsDocument, {}, ""),
        "## codeVariants\n\n" + _table(CodeVariantsDocument, {}, ""),
        "## sharedStorage\n\n" + _table(SharedStorage, {key: key for key in keys_of(SharedStorage)}, ""),
        *(_platform(name, load_platform(name)) for name in sorted(BUILT_IN)),
        "## v1 fields without a counterpart\n\n| v1 | what it means here |\n| --- | --- |\n"
        + "".join(f"| `{v1}` | {meaning} |\n" for v1, meaning in V1_DROPPED.items()),
    ]
    return "\n".join(parts)


def _of_tuner() -> dict[str, str]:
    """The v1 names within the tuner's section -> the v2 names, the three builtin names together."""
    rows = {v1.partition(".")[2]: v2.partition(".")[2] for v1, v2 in V1_FIELDS.items()
            if v1.partition(".")[0] in ("tuner", "assessor", "advisor") and "." in v2}
    rows["multiThread"] = "multiThread"  # of the whole file
    return rows | {v1.partition(".")[2]: v2.partition(".")[2] for v1, v2 in V1_CLASS_FILES.items()}


def _algorithms(kind: str, known: tuple[Algorithm, ...]) -> str:
    text = f"| {kind} | classArgs | optimize_mode if not given |\n| --- | --- | --- |\n"
    for algorithm in known:
        names = ", ".join((algorithm.name, *algorithm.aliases))
        arguments = "; ".join(f"`{name}`: {type_words(field)}"
                              for name, field in algorithm.class_args.model_fields.items())
        text += f"| {names} | {_cell(arguments)} | {algorithm.default_optimize_mode or 'maximize'} |\n"
    return text


def _platform(name: str, platform: type[TrainingService]) -> str:
    aliases = [alias for alias, real in ALIASES.items() if real == name]
    also = f" (also written `{'`, `'.join(aliases)}`)" if aliases else ""
    models = (platform.settings_model, platform.options_model)
    v1 = {key: value for model in models for key, value in model.v1_fields.items()}
    dropped = {key: value for model in models for key, value in model.v1_dropped.items()}
    rows = "".join(_rows(model, v1, "") for model in models)
    text = (f"## trainingService: platform: {name}{also}\n\n{HEAD}"
            f"| `platform` | `trainingServicePlatform` | text | required | Always `{name}`. |\n{rows}")
    if not any("reuseMode" in keys_of(model) for model in models):
        text += f"| `reuseMode` | | true or false | - | Accepted; {platform.settings_model.reuse_mode_meaning}. |\n"
    for v1_name, meaning in dropped.items():
        text += f"| - | `{v1_name}` | | | {meaning} |\n"
    return text


HEAD = "| v2 | v1 | type | default | meaning |\n| --- | --- | --- | --- | --- |\n"


def _table(model: type[BaseModel], v1: dict[str, str], prefix: str) -> str:
    return HEAD + _rows(model, v1, prefix)


def _rows(model: type[BaseModel], v1: dict[str, str], prefix: str) -> str:
    text = ""
    for name, field in model.model_fields.items():
        key = prefix + file_key(name, field)
        v1_names = ", ".join(f"`{old}`" for old, new in v1.items() if new == key or new == f"/{key}")
        text += (f"| `{key}` | {v1_names} | {_cell(type_words(field))} | {_cell(default_words(field))} "
                 f"| {_cell(field.description or '')} |\n")
        if model is not ExperimentDocument:
            for suffix, inner in inner_models(field.annotation):
                text += _rows(inner, v1, f"{key}{suffix}.")
    return text


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    sys.stdout.write(render())

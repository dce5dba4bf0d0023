"""The config that NNI has kept with an experiment, in v2 form.

From NNI 2.2 on it is the v2 form itself. Up to 2.1, and later for kubeflow, frameworkcontroller and adl without reuse,
it is what the launcher sent to the manager: the top of the v1 file, the search space as text, and the sections about
the platform apart, as a list of keys and values (``clusterMetaData``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nniweb.experiments.config.errors import ConfigError, ConfigInvalid
from nniweb.experiments.config.v1_conversion import ALGORITHMS, PLATFORM_KEY, V1_DROPPED, V1_FIELDS, convert
from nniweb.experiments.config.yaml_positions import read_mapping

#: Key of clusterMetaData -> where its value stood in the v1 file.
_SECTIONS = {
    "trial_config": "trial", "local_config": "localConfig", "machine_list": "machineList",
    "remote_config": "remoteConfig", "pai_config": "paiConfig", "pai_yarn_config": "paiYarnConfig",
    "kubeflow_config": "kubeflowConfig", "frameworkcontroller_config": "frameworkcontrollerConfig",
    "dlts_config": "dltsConfig", "aml_config": "amlConfig", "shared_storage_config": "sharedStorage",
    "hybrid_config": "hybridConfig"}
#: The local platform of NNI 1 has fields of the trial in clusterMetaData, without a section.
_OF_THE_TRIAL = ("command", "codeDir", "gpuNum")
_V1_TOP = {name.split(".")[0] for name in (*V1_FIELDS, *V1_DROPPED)} - {"trial"}


def kept_config(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ConfigError]]:
    """The v2 form, and what of the old form could not be brought into it, in the old form's words.

    Raises TypeError, KeyError, AttributeError or ValueError where the shape is none that NNI writes.
    """
    if PLATFORM_KEY not in params and "maxExecDuration" not in params:
        # the space that was used in the end counts; the file from which the first one came may be gone, and the code
        # that was kept has its annotations carried out
        unused = {"experimentWorkingDirectory"} | ({"searchSpaceFile", "useAnnotation"} if "searchSpace" in params
                                                   else set())
        return {key: value for key, value in params.items() if key not in unused}, []
    document, findings = convert(read_mapping(_as_v1_file(params)))
    space = params.get("searchSpace")
    if space not in (None, "", '""'):
        document["searchSpace"] = json.loads(space) if isinstance(space, str) else space
        document.pop("useAnnotation", None)  # the space is what the annotations gave
    if params.get("maxTrialDuration") is not None:  # beside the v1 fields from NNI 2.4 on
        document["maxTrialDuration"] = params["maxTrialDuration"]
    try:
        findings.raise_if_any()
    except ConfigInvalid as invalid:
        return document, invalid.errors
    return document, []


def _as_v1_file(params: Mapping[str, Any]) -> dict[str, Any]:
    """The file from which the launcher made this, less what the archive does not need (``logDir``)."""
    file: dict[str, Any] = {PLATFORM_KEY: "local"}
    file |= {key: value for key, value in params.items() if key in _V1_TOP and value is not None and key != "logDir"}
    for entry in params.get("clusterMetaData") or []:
        key, value = entry["key"], entry["value"]
        if key in _SECTIONS:
            file[_SECTIONS[key]] = value
        elif key in _OF_THE_TRIAL:
            file.setdefault("trial", {})[key] = value
        elif key == "nni_manager_ip":
            file |= value
    for section in ALGORITHMS:
        if section in file:
            file[section] = _algorithm(section, file[section])
    return file


def _algorithm(section: str, written: Mapping[str, Any]) -> dict[str, Any]:
    """Beside the name of a built-in algorithm early releases have kept the class and the file that it stands for."""
    built_in = f"builtin{section.capitalize()}Name"
    own = ("codeDir", "classFileName", "className") if written.get(built_in) else ()
    return {key: value for key, value in written.items() if key not in own and value is not None}

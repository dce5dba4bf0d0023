"""NNI's v1 form (``trainingServicePlatform``, ``trial``, ``machineList`` ...) turned into the v2 form.

Almost all of it is one field under another name, so it is a table of v1 paths and v2 paths; a
platform adds its own rows (``v1_fields``, ``v1_dropped`` in its ``config.py``). The same table read
backwards gives errors found in the v2 form the names of the v1 file. v1 keys are matched exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field

from nniweb.experiments.config.document import MOST
from nniweb.experiments.config.fields.walk import nearest
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.model_validation import problem_of
from nniweb.experiments.config.platform_section import load
from nniweb.experiments.config.yaml_positions import Path, SourceDocument, path_text
from trainingservice.base import TrainingService
from trainingservice.gpus.gpu_indices import GpuIndices
from trainingservice.words.shown_value import shown

PLATFORM_KEY = "trainingServicePlatform"
ALGORITHMS = ("tuner", "assessor", "advisor")

#: v1 path -> v2 path; ``[]`` stands after a list. Of two fields that mean the same, the later wins.
V1_FIELDS: dict[str, str] = {
    "experimentName": "experimentName",
    "description": "description",
    "trialConcurrency": "trialConcurrency",
    "maxExecDuration": "maxExperimentDuration",
    "maxTrialNum": "maxTrialNumber",
    PLATFORM_KEY: "trainingService.platform",
    "searchSpacePath": "searchSpaceFile",
    "useAnnotation": "useAnnotation",
    "multiPhase": "multiPhase",
    "nniManagerIp": "nniManagerIp",
    "logDir": "experimentWorkingDirectory",
    "debug": "debug",
    "logLevel": "logLevel",
    "sharedStorage": "sharedStorage",
    "tuner.builtinTunerName": "tuner.name",
    "assessor.builtinAssessorName": "assessor.name",
    "advisor.builtinAdvisorName": "advisor.name",
    **{f"{section}.{v1}": f"{section}.{v2}" for section in ALGORITHMS
       for v1, v2 in (("codeDir", "codeDirectory"), ("className", "className"), ("classArgs", "classArgs"))},
    "tuner.includeIntermediateResults": "tuner.includeIntermediateResults",
    "advisor.includeIntermediateResults": "advisor.includeIntermediateResults",
    "multiThread": "tuner.multiThread",
    "tuner.gpuIndices": "tunerGpuIndices",
    "advisor.gpuIndices": "tunerGpuIndices",
    "trial.command": "trialCommand",
    "trial.codeDir": "trialCodeDirectory",
    "trial.gpuNum": "trialGpuNumber",
}

#: v1 fields without a counterpart -> what that means here.
V1_DROPPED: dict[str, str] = {
    "authorName": "is not stored; an experiment belongs to the person who starts it",
    "versionCheck": "has no effect; trials always get the keeper of this server's version",
    "logCollection": "has no effect; the output of trials is always collected",
    "assessor.includeIntermediateResults": "has no effect, as in NNI; it belongs to the tuner",
    **{f"{section}.gpuNum": "has no effect, as in NNI; gpuIndices of the tuner says which GPUs it sees"
       for section in ALGORITHMS},
    "tuner.checkpointDir": "has no effect; the server chooses the folder",
    "assessor.checkpointDir": "has no effect; the server chooses the folder",
    "advisor.checkpointDir": "has no effect; the server chooses the folder",
    "assessor.gpuIndices": "has no effect, as in NNI; gpuIndices of the tuner applies",
    "trial.nasMode": "has no effect; it belongs to neural architecture search, which is not supported",
}

#: Their types: nothing comes of such a value, and yet a wrong one is a slip that the person wants to know of.
V1_DROPPED_TYPES: dict[str, Any] = {
    "authorName": str, "versionCheck": bool,
    "logCollection": Literal["http", "none"], "assessor.gpuIndices": GpuIndices,
    "trial.nasMode": Literal["classic_mode", "enas_mode", "oneshot_mode", "darts_mode"],
    "assessor.includeIntermediateResults": bool,
    **{f"{section}.gpuNum": Annotated[int, Field(ge=0, le=MOST)] for section in ALGORITHMS},
    **{f"{section}.checkpointDir": str for section in ALGORITHMS},
}

#: v1 fields that are taken apart by hand: what they become is in the v2 field of className.
V1_CLASS_FILES = {f"{section}.classFileName": f"{section}.className" for section in ALGORITHMS}


def is_v1(data: Mapping[str, Any]) -> bool:
    """Whether the file is in v1 form, by the key that NNI itself looks for."""
    return PLATFORM_KEY in data


class V1Conversion:
    """The conversion of one document: ``convert`` gives the v2 form, ``v1_path`` the way back."""

    def __init__(self, source: SourceDocument) -> None:
        self._data = source.data
        self.findings = Findings(source.places, self.v1_path)
        self._fields: dict[str, str] = dict(V1_FIELDS)
        if "advisor" in source.data and "tuner" not in source.data:
            self._fields["multiThread"] = "advisor.multiThread"
        self._dropped: dict[str, str] = dict(V1_DROPPED)
        self._dropped_types: dict[str, Any] = dict(V1_DROPPED_TYPES)
        self._refused: dict[str, str] = {}
        self._values: dict[str, Callable[[Any], Any]] = {}
        self._back: dict[Path, Path] = {}
        #: (row of the table, v2 path, caller's path, value)
        self._moves: list[tuple[int, str, Path, Any]] = []

    def convert(self) -> dict[str, Any]:
        """The v2 document. Problems go to ``findings``; the platform's rows take part where it is known."""
        platform = load(self._data.get(PLATFORM_KEY), ("trainingService", "platform"), self.findings)
        if platform is not None:
            self._add_rows_of(platform)
            if str(self._data[PLATFORM_KEY]).lower() == "paiyarn":
                self.findings.note(f"{PLATFORM_KEY}: OpenPAI's clusters on YARN are not asked; it is read as "
                                   f"{platform.platform}, which is OpenPAI 1.1 and later.")
            if not platform.settings_model.v1_fields and not platform.options_model.v1_fields:
                self.findings.note(f"{PLATFORM_KEY}: NNI's v1 form has no fields for {platform.platform}.")
        result: dict[str, Any] = {"trainingService": {}}
        self._rows = {v1: row for row, v1 in enumerate(self._fields)}
        known = _tree([*self._fields, *self._dropped, *self._refused, *V1_CLASS_FILES])
        self._walk(self._data, known, (), (), platform_known=platform is not None)
        for _, v2, raw, value in sorted(self._moves, key=lambda move: move[0]):
            self._set(result, v2, raw, value)
        self._class_names(result)
        return result

    def v1_path(self, path: Path) -> Path:
        """The caller's path of a v2 path, also of one that is missing."""
        if path == ("trainingService",):
            return (PLATFORM_KEY,)
        for length in range(len(path), 0, -1):
            if path[:length] in self._back:
                return (*self._back[path[:length]], *path[length:])
            wanted = _pattern(path[:length])
            names = [v1 for v1, v2 in self._fields.items() if v2 == wanted]
            for v1 in sorted(names, key=self._is_foreign):
                indices = [part for part in path[:length] if isinstance(part, int)]
                return (*_with_indices(v1, indices), *path[length:])
            for v1, v2 in self._fields.items():  # a list whose items are renamed: machineList[0]
                if wanted.endswith("[]") and v2.startswith(wanted + "."):
                    indices = [part for part in path[:length] if isinstance(part, int)]
                    return (*_with_indices(v1[:v1.rindex("[]") + 2], indices), *path[length:])
                if v2.startswith(wanted + ".") and "[]" not in v1 and v2 != f"{wanted}.platform":
                    return _with_indices(v1, [])[:1]  # a group whose fields lie elsewhere in v1
                if v2.startswith(wanted + "[]"):
                    return (*_with_indices(v1[:v1.index("[]")], []), *path[length:])
        return path[1:] if path[:1] == ("trainingService",) and len(path) > 1 else path

    def _is_foreign(self, v1: str) -> tuple[bool, bool]:
        """Of several names of one field: whether the file has its group, or its platform would, comes first."""
        group = v1.split(".")[0].removesuffix("[]")
        return group not in self._data, group != f"{self._data.get(PLATFORM_KEY)}Config"

    def _add_rows_of(self, platform: type[TrainingService]) -> None:
        for model in (platform.settings_model, platform.options_model):
            # values for the whole file (trialGpuNumber ...) are written as "/trialGpuNumber"
            self._fields |= {v1: v2[1:] if v2.startswith("/") else f"trainingService.{v2}"
                             for v1, v2 in model.v1_fields.items()}
            self._dropped |= dict(model.v1_dropped)
            self._dropped_types |= dict(model.v1_dropped_types)
            self._refused |= dict(model.v1_refused)
            self._values |= dict(model.v1_values)

    def _walk(self, value: dict[str, Any], known: dict[str, Any], raw: Path, pattern: tuple[str, ...],
              *, platform_known: bool) -> None:
        for key, item in value.items():
            here, here_pattern = (*raw, key), (*pattern, key)
            name = ".".join(here_pattern)
            if key.endswith("[]") or key not in known and key + "[]" not in known:
                if platform_known:  # else the unknown platform explains its own fields
                    self.findings.add_raw(here, "is not a known field here"
                                          + nearest(key, [word.removesuffix("[]") for word in known]), at_key=True)
            elif item is None:
                continue
            elif name in self._fields:
                value = self._values[name](item) if name in self._values else item
                self._moves.append((self._rows[name], self._fields[name], here, value))
            elif name in self._dropped:
                if name in self._dropped_types and (problem := problem_of(self._dropped_types[name], item)):
                    self.findings.add_raw(here, problem)
                else:
                    self.findings.note(f"{path_text(here)}: {self._dropped[name]}.")
            elif name in self._refused:
                self.findings.add_raw(here, self._refused[name], at_key=True)
            elif name in V1_CLASS_FILES:
                continue
            elif key + "[]" in known:
                if not isinstance(item, list) or not all(isinstance(entry, dict) for entry in item):
                    self.findings.add_raw(here, "must be a list of groups of fields")
                    continue
                for index, entry in enumerate(item):
                    self._walk(entry, known[key + "[]"], (*here, index), (*pattern, key + "[]"),
                               platform_known=platform_known)
            elif isinstance(item, dict):
                self._walk(item, known[key], here, here_pattern, platform_known=platform_known)
            else:
                self.findings.add_raw(here, f"must be a group of fields, not {shown(item)}")

    def _set(self, result: dict[str, Any], v2: str, raw: Path, value: Any) -> None:
        """Put a value at a v2 path, making groups and list entries on the way."""
        indices = iter([part for part in raw if isinstance(part, int)])
        path: list[str | int] = []
        place: Any = result
        *parents, last = v2.split(".")
        for parent in parents:
            name = parent.removesuffix("[]")
            path.append(name)
            if parent.endswith("[]"):
                index = next(indices)
                place = place.setdefault(name, [])
                place += [{} for _ in range(index + 1 - len(place))]
                place = place[index]
                path.append(index)
            else:
                place = place.setdefault(name, {})
        place[last] = value
        self._back[(*path, last)] = raw

    def _class_names(self, result: dict[str, Any]) -> None:
        """``classFileName: my_tuner.py`` and ``className: MyTuner`` become ``className: my_tuner.MyTuner``."""
        for section in ALGORITHMS:
            group = self._data.get(section)
            if not isinstance(group, dict) or group.get("classFileName") is None and group.get("className") is None:
                continue
            missing = [key for key in ("codeDir", "classFileName", "className") if group.get(key) is None]
            for key in missing:
                self.findings.add_raw((section, key), "is required: an algorithm of your own needs codeDir, "
                                      "classFileName and className")
            file_name, class_name = group.get("classFileName"), group.get("className")
            for key, written in (("classFileName", file_name), ("className", class_name)):
                if written is not None and not isinstance(written, str):
                    self.findings.add_raw((section, key), f"must be text, not {shown(written)}")
            if isinstance(file_name, str) and isinstance(class_name, str):
                if not file_name.endswith(".py") or "/" in file_name:
                    self.findings.add_raw((section, "classFileName"), "must be the name of a Python file in codeDir, "
                                          f"such as my_tuner.py, not {shown(file_name)}")
                result.setdefault(section, {})["className"] = f"{PurePosixPath(file_name).stem}.{class_name}"
            else:
                result.get(section, {}).pop("className", None)


def _tree(paths: list[str]) -> dict[str, Any]:
    """The known fields as nested dicts; the name of a list ends in ``[]``."""
    tree: dict[str, Any] = {}
    for path in paths:
        branch = tree
        for part in path.split("."):
            branch = branch.setdefault(part, {})
    return tree


def _pattern(path: Path) -> str:
    text = ""
    for part in path:
        text += "[]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _with_indices(pattern: str, indices: list[int]) -> Path:
    path: list[str | int] = []
    remaining = iter(indices)
    for part in pattern.split("."):
        path.append(part.removesuffix("[]"))
        if part.endswith("[]"):
            index = next(remaining, None)
            if index is not None:
                path.append(index)
    return tuple(path)


def convert(source: SourceDocument) -> tuple[dict[str, Any], Findings]:
    """The v2 form of a v1 document, and findings that speak v1. Raises nothing for what it finds."""
    conversion = V1Conversion(source)
    return conversion.convert(), conversion.findings

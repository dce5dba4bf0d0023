"""The configuration files of NNI's documentation and examples, 1.0 to 2.10: which are accepted, and why others are not.

The tables beside this file list each file by its path in NNI's repository, with the version that brought it in this
form (``path:line`` is a block in a page of the documentation). ``config`` is written anew: the fields, and the kinds of
their values, are those of NNI's file. Files that come to the same share an entry. An entry without ``because`` and
``needs`` is accepted. ``because`` says what is wrong in the file itself: a field, and a key of ``WRONG``. ``needs``
names what we say that we do not have, a key of ``MISSING``.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nniweb.experiments.config import ConfigError, ConfigInvalid, parse_experiment_config
from tests.nni_files.yaml_tables import read_table

TABLES = sorted(Path(__file__).parent.glob("*.yml"))
ENTRIES: list[dict[str, Any]] = [{"table": path.stem, **entry} for path in TABLES
                                 for entry in read_table(path)]

#: What we do not have -> the fields at which files that need it are refused, and how the sentences begin. Whoever adds
#: one of them removes its line: the files of that line must then be accepted, but for what is wrong in themselves.
MISSING: dict[str, dict[str, str]] = {
    "PAI-DLC": {"trainingService.platform": "Alibaba's PAI-DLC is not here"},
    "hybrid of the v1 form": {"trainingServicePlatform": "NNI's hybrid of several platforms is not here in the v1"},
    "architecture search": {"tuner.builtinTunerName": "NNI's \"", "tuner.name": "NNI's \"",
                            "searchSpacePath": "", "searchSpace": ""},
}

#: What is wrong with a field of a file -> how the sentence about it begins.
WRONG: dict[str, str] = {
    "placeholder": "is a placeholder", "missing": "is required", "unknown field": "is not a known field",
    "given twice": "is given twice", "no YAML": "is not valid YAML", "no text": "must be text",
    "beside annotations": "must be left out with useAnnotation", "kind of storage": "says nothing of its kind",
    "no such tuner": "there is no tuner named"}

#: What stands for a parameter of each type.
VALUES: dict[str, list[Any]] = {
    "choice": [1, 2], "randint": [0, 10], "uniform": [0, 1], "quniform": [0, 1, 0.1], "loguniform": [0.001, 1],
    "qloguniform": [1, 100, 1], "normal": [0, 1], "qnormal": [0, 1, 0.1], "lognormal": [0, 1],
    "qlognormal": [0, 1, 0.1]}
ANNOTATED = '''
"""@nni.variable(nni.uniform(0, 1), name=x)"""
x = 0.5
"""@nni.report_final_result(x)"""
'''
OWN = "class Own:\n    def __init__(self, **arguments):\n        pass\n"
TEMPLATE = """
apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata: {name: example}
spec:
  executionType: Start
  retryPolicy: {maxRetryCount: 0}
  taskRoles:
  - name: worker
    taskNumber: 1
    frameworkAttemptCompletionPolicy: {minFailedTaskCount: 1, minSucceededTaskCount: 1}
    task:
      pod:
        spec:
          restartPolicy: Never
          containers: [{name: framework, image: "example/trial:1", command: [python3, trial.py],
                        volumeMounts: [{name: claim, mountPath: /tmp/mount}]}]
          volumes: [{name: claim, persistentVolumeClaim: {claimName: claim}}]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With everything that the configs name."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "code").mkdir()
    (folder / "mounted").mkdir()
    (folder / "code" / "trial.py").write_text(ANNOTATED)
    (folder / "code" / "own.py").write_text(OWN)
    (folder / "template.yml").write_text(TEMPLATE)
    (folder / "auth.json").write_text('{"auths": {}}')
    return folder


@pytest.fixture(autouse=True)
def outside_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DLWS_VC_NAME", "DLWS_USER_EMAIL", "DLTS_JOB_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def files_of(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for version, paths in entry["files"].items():
        for path in paths:
            yield version, path


def space_of(entry: dict[str, Any]) -> dict[str, Any]:
    """The search space: names of types, or what stands for it."""
    written = entry.get("space", ["uniform"])
    return written if isinstance(written, dict) else {
        kind: {"_type": kind, "_value": VALUES.get(kind, ["a"])} for kind in written}


def errors_of(entry: dict[str, Any], folder: Path) -> list[ConfigError]:
    (folder / "search_space.json").write_text(json.dumps(space_of(entry)))
    try:
        parse_experiment_config(entry.get("text") or yaml.safe_dump(entry["config"], sort_keys=False), folder)
    except ConfigInvalid as invalid:
        return invalid.errors
    return []


def lacking(entry: dict[str, Any]) -> dict[str, str]:
    """Of what the entry needs, and is not here: field -> how its sentence begins."""
    needs = entry.get("needs", [])
    return {field: words for name in needs for field, words in MISSING.get(name, {}).items()}


EACH = pytest.mark.parametrize("entry", ENTRIES, ids=[
    f"{entry['table']} {next(files_of(entry))[1]} {next(files_of(entry))[0]}" for entry in ENTRIES])


@EACH
def test_a_file_is_accepted_or_refused_for_a_reason_in_it_or_for_what_we_lack(entry: dict[str, Any], folder: Path
                                                                              ) -> None:
    because, lacks = entry.get("because", {}), lacking(entry)
    errors = errors_of(entry, folder)
    told = {error.field: error.message for error in errors}
    for field, wrong in because.items():
        assert told.get(field, "").startswith(WRONG[wrong]), f"{field}: {told}"
    for field, message in told.items():
        if field not in because:
            assert field in lacks, f"{field}: {message}"
            assert message.startswith(lacks[field])
    if lacks:
        assert set(told) & set(lacks), f"what it needs seems to be here: take it out of MISSING; {told}"


@EACH
def test_a_refusal_is_a_sentence_with_its_field(entry: dict[str, Any], folder: Path) -> None:
    for error in errors_of(entry, folder):
        assert error.field or "text" in entry
        assert error.line is not None or error.message.startswith("is required")
        assert re.match(r"[A-Z]|is |are |must |has |names |says |does |needs |the |there |in |a |belongs ",
                        error.message)
        assert not re.search(r"\\S|\^\S+\$|should |Input |pydantic|Error", error.message), error.message


def test_each_file_is_in_the_tables_once_and_they_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    count = Counter(file for entry in ENTRIES for file in files_of(entry))
    assert [file for file, times in count.items() if times > 1] == []
    verdicts: Counter[str] = Counter()
    for entry in ENTRIES:
        files = len(list(files_of(entry)))
        needs = [name for name in entry.get("needs", []) if name in MISSING]
        verdicts[f"lack {needs[0]}" if needs else "refused" if entry.get("because") else "accepted"] += files
    total, accepted, refused = sum(verdicts.values()), verdicts.pop("accepted"), verdicts.pop("refused")
    lacks = ", ".join(f"{files} {verdict.removeprefix('lack ')}" for verdict, files in sorted(verdicts.items()))
    with capsys.disabled():
        sys.stdout.write(f"\n{total} files of NNI 1.0 to 2.10: {accepted} accepted, {refused} refused for what they "
                         f"say, {sum(verdicts.values())} for what is not here ({lacks})\n")
    assert total == len(count) == 301
    assert accepted >= 191


def test_what_is_missing_is_needed_by_some_file() -> None:
    assert {name for entry in ENTRIES for name in entry.get("needs", [])} >= set(MISSING)

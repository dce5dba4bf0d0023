"""JSON that a trial or a machine tells, nested without an end, is no JSON, and no exception."""

import base64
from pathlib import Path

import pytest

from trainingservice.keeper.end_in_output import END_MARK, told_end
from trainingservice.kubernetes_base import pod_logs, pods
from trainingservice.rest.told_json import read_json
from trialkeeper.attempt_folder import read_object

NESTED = '{"a": ' * 100_000


def test_it_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(NESTED)
    assert read_json('{"a": [1]}') == {"a": [1]}


def test_what_a_trial_prints_or_leaves_so_is_nothing_that_a_keeper_has_told(tmp_path: Path) -> None:
    assert told_end(f"hello\n{END_MARK}{NESTED}\n") is None
    assert pods.end_in(NESTED) is None
    marked = pod_logs.MARK + base64.b64encode(NESTED.encode()).decode()
    assert pod_logs._marked(marked) is None
    (tmp_path / "exit.json").write_text(NESTED)
    assert read_object(str(tmp_path / "exit.json")) is None

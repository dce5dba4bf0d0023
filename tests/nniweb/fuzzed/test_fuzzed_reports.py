"""Whatever a keeper sends: an answer that is no 5xx, and the report of its neighbour in the same commit is stored."""

import json
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nniweb.experiments.ingest import reports
from nniweb.experiments.models import Metric
from nniweb.experiments.models.account import hash_of
from nniweb.keeperapi.group_commit import GroupCommit, _Waiting
from trialkeeper import contract

SCALARS = st.none() | st.booleans() | st.integers(-2**70, 2**70) | st.floats() | st.text(max_size=6) | st.sampled_from(
    ["\x00", "\ud800", "x" * 300, "<script>alert(1)</script>", "\x1b[31m", "stdout", *contract.METRIC_KINDS,
     *contract.END_REASONS, 2**31, 2**63 - 1, -1, 0])
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner,
                                                                                         max_size=3), max_leaves=6)
FIELDS = dict.fromkeys((
    "kind", "parameter_id", "sequence", "value", "stream", "offset", "data", "skipped", "pid", "host", "machine_id",
    "gpu_indices", "working_directory", "reason", "message", "exit_code", "signal", "duration"), JSON)
RIGHT = {
    "metric": {"kind": "PERIODICAL", "parameter_id": 0, "sequence": 0, "value": "1"},
    "output": {"stream": "stdout", "offset": 0, "data": "x"},
    "started": {"pid": 1, "host": "box", "machine_id": "m", "gpu_indices": None, "working_directory": "/"},
    "ended": {"exit_code": 0, "signal": None, "reason": "exited", "message": "", "duration": 1.0}}
ENTRIES = st.lists(st.tuples(st.sampled_from(sorted(RIGHT)), st.fixed_dictionaries({}, optional=FIELDS)), max_size=4)
KEEPERS = st.fixed_dictionaries({"version": st.just(1) | JSON, "journal_id": st.text(min_size=1, max_size=70) | JSON},
                                optional={"host": JSON, "pid": JSON, "replica": JSON, "parameter_index": JSON})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keeper=KEEPERS, entries=ENTRIES, more=st.fixed_dictionaries({}, optional={"sent_at": JSON, "resources": JSON}),
       is_raw=st.integers(0, 9), raw=st.binary(max_size=40))
@example(keeper={"version": {}, "journal_id": "j"}, entries=[], more={}, is_raw=1, raw=b"")
def test_no_report_breaks_the_server_or_its_neighbours(make_attempt: Any, keeper: Any, entries: Any, more: Any,
                                                       is_raw: int, raw: bytes) -> None:
    odd, neighbour = make_attempt(), make_attempt()
    document = {"keeper": keeper, **more, "entries": [
        {"n": n, "at": 1.0, "type": kind, **RIGHT[kind], **fields} for n, (kind, fields) in enumerate(entries, 1)]}
    good = json.dumps({"keeper": {"version": 1, "journal_id": "good"}, "entries": [
        {"n": 1, "at": 1.0, "type": "metric", **RIGHT["metric"]}]}).encode()
    group = [waiting(odd.job_name, raw if is_raw == 0 else json.dumps(document).encode()),
             waiting(neighbour.job_name, good)]
    first, second = GroupCommit("here")._store(group)
    assert first.status < 500, first.body
    assert second.status == 200
    assert Metric.objects.filter(attempt=neighbour).count() == 1


def waiting(job_name: str, body: bytes) -> _Waiting:
    return _Waiting(job_name, hash_of("token"), body, "", reports.received_now(), None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("job", ["", "x" * 300, "\x00", "../..", "a' or 1=1 --"])
def test_a_forged_name_is_nobodys(db: None, make_attempt: Any, job: str) -> None:
    make_attempt()
    [answer] = GroupCommit("here")._store([waiting(job, b'{"keeper": {"version": 1, "journal_id": "j"}}')])
    # PostgreSQL takes no NUL, so there it is unreadable; no address lets it in
    assert answer.status == (400 if "\x00" in job and connection.vendor == "postgresql" else 404)

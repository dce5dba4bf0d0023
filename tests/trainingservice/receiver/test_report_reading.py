"""What a report may contain, and what a server answers to the rest."""

import gzip
import json

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainingservice.receiver.report_reading import Gap, RefusedReport, read_report, refuse_by_length
from trialkeeper import contract

KEEPER = {"version": 1, "host": "here", "pid": 7, "journal_id": "j1", "replica": 0}


def metric(n, **changes):
    return {"n": n, "at": 5.0, "type": "metric", "kind": "PERIODICAL", "parameter_id": 0, "sequence": n,
            "value": "0.5", **changes}


def report(*entries, **more):
    return {"keeper": KEEPER, "sent_at": 6.0, "entries": list(entries), **more}


def body(document):
    return json.dumps(document).encode()


@pytest.mark.parametrize("loads", [json.loads, orjson.loads])
def test_texts_that_a_strict_parser_refuses_arrive_as_the_trial_gave_them(loads):
    hard = ["NaN", '"a\x00b"', '"\ud800"', '{"default": 1e308}', "not a number", json.dumps([0.1] * 20_000)]
    read = read_report(body(report(*(metric(n, value=value) for n, value in enumerate(hard, 1)))), loads=loads)
    assert [entry["value"] for entry in read.entries] == hard
    assert read.rejected == ()


def test_a_parsed_report_is_read_like_its_bytes():
    document = report(metric(1))
    assert read_report(document) == read_report(body(document)) == read_report(gzip.compress(body(document)), "gzip")


@pytest.mark.parametrize(("content", "encoding"), [
    (b"", ""), (b"garbage", ""), (b"[]", ""), (b"{}", ""), (b'{"keeper": 1}', ""), (b"\xff\xfe{", ""),
    (b"[" * 100_000, ""), (b"{}", "gzip"), (gzip.compress(body(report()), mtime=0)[:-9], "gzip"),
    (body(report()), "br"),
    (body({"keeper": KEEPER, "entries": {}}), ""), (body({"keeper": KEEPER, "entries": [1]}), ""),
    (body({"keeper": KEEPER, "entries": [{"n": True}]}), ""), (body({"keeper": KEEPER, "entries": [{"n": 0}]}), ""),
    (body({"keeper": {**KEEPER, "version": 99}, "entries": []}), ""),
    (body({"keeper": {**KEEPER, "journal_id": ""}, "entries": []}), ""),
    (body({"keeper": {**KEEPER, "replica": "x"}, "entries": []}), ""),
    (b'{"keeper": {"version": ' + b"9" * 5000 + b"}}", ""),
])
@pytest.mark.parametrize("loads", [json.loads, orjson.loads])
def test_what_cannot_be_read_is_refused_as_a_whole(content, encoding, loads):
    with pytest.raises(RefusedReport) as refusal:
        read_report(content, encoding, loads=loads)
    assert (refusal.value.status, refusal.value.error) == (400, contract.ERROR_UNREADABLE)
    assert refusal.value.document("inst")["installation"] == "inst"


def test_a_small_body_that_unpacks_to_a_huge_one_is_refused_without_unpacking_it():
    bomb = gzip.compress(b" " * (contract.MAX_REPORT_BYTES * 20))
    with pytest.raises(RefusedReport) as refusal:
        read_report(bomb, "gzip")
    assert (refusal.value.status, refusal.value.error) == (413, contract.ERROR_TOO_LARGE)


def test_the_length_alone_is_enough_to_refuse():
    refuse_by_length(None)
    refuse_by_length(str(contract.MAX_REPORT_BYTES))
    for length, status in ((str(contract.MAX_REPORT_BYTES + 1), 413), ("9" * 5000, 413), ("0" * 20 + "9" * 12, 413),
                           ("x", 400), ("-1", 400)):
        with pytest.raises(RefusedReport) as refusal:
            refuse_by_length(length)
        assert refusal.value.status == status


@pytest.mark.parametrize(("entry", "field"), [
    ({"n": 1, "at": 1}, "type"),
    ({"n": 1, "at": 1, "type": ["metric"]}, "type"),
    (metric(1, at=None), "at"),
    (metric(1, at=float("nan")), "at"),
    (metric(1, kind="LAST"), "kind"),
    (metric(1, kind=["FINAL"]), "kind"),
    (metric(1, parameter_id=[1]), "parameter_id"),
    (metric(1, parameter_id="x" * 256), "parameter_id"),
    (metric(1, parameter_id=float("inf")), "parameter_id"),
    (metric(1, sequence=1.5), "sequence"),
    (metric(1, sequence=True), "sequence"),
    (metric(1, sequence=2**40), "sequence"),
    (metric(1, value=0.5), "value"),
    (metric(1, value="x" * contract.MAX_METRIC_BYTES), "value"),
    (metric(1, value="\u20ac" * (contract.MAX_METRIC_BYTES // 3 + 1)), "value"),
    ({"n": 1, "at": 1, "type": "output", "stream": "stdin", "offset": 0, "data": ""}, "stream"),
    ({"n": 1, "at": 1, "type": "output", "stream": "stdout", "offset": -1, "data": ""}, "offset"),
    ({"n": 1, "at": 1, "type": "output", "stream": "stdout", "offset": 0, "data": "\u0100"}, "data"),
    ({"n": 1, "at": 1, "type": "output", "stream": "stdout", "offset": 0, "data": "x" * 65537}, "data"),
    ({"n": 1, "at": 1, "type": "started", "pid": "1"}, "pid"),
    ({"n": 1, "at": 1, "type": "started", "host": "h" * 300}, "host"),
    ({"n": 1, "at": 1, "type": "started", "gpu_indices": ["0"]}, "gpu_indices"),
    ({"n": 1, "at": 1, "type": "ended", "reason": "bored"}, "reason"),
    ({"n": 1, "at": 1, "type": "ended", "reason": "exited", "exit_code": "0"}, "exit_code"),
    ({"n": 1, "at": 1, "type": "ended", "reason": "exited", "duration": -1}, "duration"),
])
def test_a_wrong_entry_is_named_by_its_field_and_does_not_hold_up_the_next(entry, field):
    read = read_report(report(entry, metric(2)))
    assert [(wrong["n"], wrong["field"]) for wrong in read.rejected] == [(1, field)]
    assert read.rejected[0]["message"]
    new = read.after(0)
    assert ([known["n"] for known in new.entries], new.accepted) == ([2], 2)


def test_a_value_that_the_keeper_left_out_is_rejected_with_its_reason():
    read = read_report(report(metric(1, value=None, omitted="it has 2000000 bytes"), metric(2)))
    assert [(wrong["field"], wrong["message"]) for wrong in read.rejected] == [
        ("value", "was left out by the keeper: it has 2000000 bytes")]


def test_the_longest_legal_metric_is_taken():
    read = read_report(report(metric(1, value="x" * (contract.MAX_METRIC_BYTES - 1))))
    assert read.rejected == ()


def test_entries_hold_exactly_the_fields_of_their_type():
    read = read_report(report({"n": 1, "at": 1, "type": "started", "later": "field"},
                              {"n": 2, "at": 1, "type": "ended", "reason": "lost", "message": "a\x00\ud800" * 9000}))
    assert read.entries[0] == {"n": 1, "at": 1.0, "type": "started", "pid": None, "host": "", "machine_id": "",
                               "gpu_indices": None, "working_directory": ""}
    assert read.entries[1]["message"] == ("a\ufffd\ufffd" * 9000)[:4000]
    assert read.entries[1]["duration"] == 0.0


@pytest.mark.parametrize("document", [
    {"keeper": {**KEEPER, "version": "\ud800"}, "entries": []}, {"keeper": {**KEEPER, "journal_id": "\ud800" * 99}},
    {"keeper": KEEPER, "entries": "\ud800"}, {"keeper": {"version": ["\ud800"]}}, {"keeper": "\ud800"}])
def test_a_refusal_can_be_sent_whatever_it_quotes(document):
    with pytest.raises(RefusedReport) as refusal:
        read_report(body(document), loads=orjson.loads)
    assert orjson.dumps(refusal.value.document("inst"))
    with pytest.raises(RefusedReport) as refusal:
        read_report(b"{}", "\udc80")
    assert orjson.dumps(refusal.value.document("inst"))


def test_a_rejection_can_be_sent_whatever_it_quotes():
    odd = "\ud800\x00"
    entries = [{"n": 1, "at": odd, "type": odd}, metric(2, kind=odd), metric(3, parameter_id=odd * 200),
               metric(4, value=None, omitted=odd), metric(5, sequence=odd),
               {"n": 6, "at": 1, "type": "ended", "reason": odd}, {"n": 7, "at": 1, "type": "output", "stream": odd},
               {"n": 8, "at": 1, "type": "started", "host": odd * 200}]
    read = read_report(body(report(*entries)), loads=orjson.loads)
    assert len(read.rejected) == len(entries)
    assert orjson.dumps(list(read.rejected))


def test_known_entries_are_left_out_and_a_gap_names_the_number_expected():
    read = read_report(report(metric(3), metric(4), metric(4), metric(5)))
    assert [entry["n"] for entry in read.after(3).entries] == [4, 5]
    assert read.after(9).accepted == 9
    with pytest.raises(Gap) as gap:
        read.after(1)
    assert gap.value.document("i") == {"installation": "i", "error": "gap", "expected": 2,
                                       "message": "entry 3 came where entry 2 must come next"}
    with pytest.raises(Gap) as inside:
        read_report(report(metric(1), metric(3))).after(0)
    assert inside.value.expected == 2


def test_a_reading_of_the_machine_is_never_a_reason_to_refuse():
    assert read_report(report(resources="x")).resources is None
    wild = {"cpu_percent": float("nan"), "memory_bytes": 5, "gpus": [{"index": 0, "utilization": "x"}, 3]}
    assert read_report(report(resources=wild)).resources == {"memory_bytes": 5, "gpus": [{"index": 0}]}


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
FIELDS = ["n", "at", "type", "kind", "parameter_id", "sequence", "value", "stream", "offset", "data", "skipped", "pid",
          "host", "machine_id", "gpu_indices", "working_directory", "exit_code", "signal", "reason", "message",
          "duration"]


@UNHURRIED
@given(st.sampled_from(contract.ENTRY_TYPES), st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_no_entry_whatever_breaks_the_reader(entry_type, fields):
    read = read_report(report({"type": entry_type, **fields, "n": 1}))
    assert len(read.entries) + len(read.rejected) == 1


@UNHURRIED
@given(JSON)
def test_no_body_whatever_breaks_the_reader(document):
    with pytest.raises(RefusedReport):
        read_report(body(document), loads=orjson.loads)

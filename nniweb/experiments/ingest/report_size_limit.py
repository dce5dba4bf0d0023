"""How much of what one trial reports is stored: a trial that writes gigabytes must not fill everybody's disk."""

from collections.abc import Sequence
from dataclasses import dataclass

from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from trialkeeper import contract


@dataclass(frozen=True)
class KeptEntries:
    """``rejected``: the entries that were left out, as the keeper is told."""

    entries: list[contract.Entry]
    rejected: list[contract.Rejected]
    #: Bytes of the attempt once these are stored; over the limit from the first that was left out.
    stored_bytes: int


def within_limit(entries: Sequence[contract.Entry], attempt: ReportingAttempt, limit: int) -> KeptEntries:
    """The entries for which there is room; ``limit`` in bytes, 0: for all.

    Beginning and end have room always, and so has the first final result: without it a trial has none.
    """
    everything = attempt.stored_bytes + sum([_size(entry) for entry in entries])
    if not limit or everything <= limit:
        return KeptEntries(list(entries), [], everything)
    kept: list[contract.Entry] = []
    rejected: list[contract.Rejected] = []
    stored = attempt.stored_bytes
    has_final = attempt.has_final
    for entry in entries:
        size = _size(entry)
        is_first_final = entry["type"] == contract.METRIC and entry["kind"] == contract.FINAL and not has_final
        if size and stored + size > limit and not is_first_final:
            stored = max(stored, limit + 1)
            rejected.append({"n": entry["n"], "field": "",
                             "message": f"at most {limit // 1_000_000} MB of metrics and output are stored for one "
                                        "trial"})
            continue
        stored += size
        has_final = has_final or is_first_final
        kept.append(entry)
    return KeptEntries(kept, rejected, stored)


def _size(entry: contract.Entry) -> int:
    """About what it takes in the database: each metric is a row, however short."""
    if entry["type"] == contract.METRIC:
        return 100 + len(entry["value"])
    return 100 + len(entry["data"]) if entry["type"] == contract.OUTPUT else 0

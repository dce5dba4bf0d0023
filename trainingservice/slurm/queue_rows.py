"""What squeue and sacct print about jobs, as rows. Pure functions; both are asked for times in seconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass

from trialkeeper.whole_number import whole_number

#: For squeue --Format: fields with a bar behind each, so wide that nothing is cut off (some versions cut at 20
#: characters otherwise). The reason is last, it may be any text.
QUEUE_FORMAT = ("JobID:24|,State:24|,RestartCnt:12|,exit_code:16|,StartTime:24|,EndTime:24|,NodeList:64|,Name:64|,"
                "Reason:160|")
#: For sacct --parsable2 --format.
ACCOUNT_FORMAT = "JobIDRaw,State,ExitCode,Start,End,NodeList,JobName"


@dataclass(frozen=True)
class JobRow:
    """One job as Slurm shows it."""

    job_id: str
    #: In capitals and without what Slurm adds behind it ("by 1000").
    state: str
    name: str
    reason: str = ""
    restarts: int = 0
    exit_code: int | None = None
    signal: int = 0
    #: Seconds since 1970; None where it has not started or ended. Of a job that runs, ``end`` is when it must.
    start: float | None = None
    end: float | None = None
    node: str = ""


def queue_rows(text: str) -> list[JobRow]:
    """From squeue's output. Lines that are no rows (a site's banner, a warning) are left out."""
    rows = []
    for line in text.splitlines():
        parts = line.split("|", 8)
        if len(parts) != 9 or whole_number(parts[0]) is None:
            continue
        job_id, state, restarts, status, start, end, nodes, name, reason = (part.strip() for part in parts)
        code, signal = _wait_status(status)
        rows.append(JobRow(job_id, _state(state), name, reason.rstrip("| "), _number(restarts), code, signal,
                           _seconds(start), _seconds(end), _node(nodes)))
    return rows


def account_rows(text: str) -> list[JobRow]:
    """From sacct's output."""
    rows = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split("|", 6)]
        if len(parts) != 7 or whole_number(parts[0]) is None:
            continue
        job_id, state, status, start, end, nodes, name = parts
        code, _, signal = status.partition(":")
        rows.append(JobRow(job_id, _state(state), name, "", 0, whole_number(code), _number(signal),
                           _seconds(start), _seconds(end), _node(nodes)))
    return rows


def _state(text: str) -> str:
    return text.split()[0].rstrip("+").upper() if text.split() else ""


def _number(text: str) -> int:
    return whole_number(text) or 0


def _wait_status(text: str) -> tuple[int | None, int]:
    """squeue shows the status as wait() gives it; newer versions as code:signal."""
    code, colon, signal = text.partition(":")
    if colon:
        return whole_number(code), _number(signal)
    status = whole_number(text)
    return (status >> 8, status & 0x7F) if status is not None else (None, 0)


def _seconds(text: str) -> float | None:
    return float(number) if (number := whole_number(text)) else None


def _node(text: str) -> str:
    return "" if text.lower().startswith(("none", "(null)", "n/a")) else text

"""What a look at the installation found, and how it is told: for people, as JSON, as an exit status. No Django."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum


class Verdict(StrEnum):
    WELL = "well"
    #: Not looked at, because something else is in the way. Unknown is not wrong.
    UNKNOWN = "unknown"
    #: It works, and should be seen to.
    WARNING = "warning"
    #: Something does not work.
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """``message`` says what is so, ``remedy`` what to do about it ("" where there is nothing to do)."""

    about: str
    verdict: Verdict
    message: str
    remedy: str = ""


def wrong(about: str, message: str, remedy: str) -> Finding:
    return Finding(about, Verdict.WRONG, message, remedy)


def warning(about: str, message: str, remedy: str) -> Finding:
    return Finding(about, Verdict.WARNING, message, remedy)


def well(about: str, message: str) -> Finding:
    return Finding(about, Verdict.WELL, message)


def unknown(about: str, message: str) -> Finding:
    return Finding(about, Verdict.UNKNOWN, message)


def exit_status(findings: Sequence[Finding]) -> int:
    """0: nothing is wrong; 1: something is; 3: there are warnings and no more. (2 is a command not understood.)"""
    verdicts = {finding.verdict for finding in findings}
    return 1 if Verdict.WRONG in verdicts else 3 if Verdict.WARNING in verdicts else 0


def as_json(findings: Sequence[Finding]) -> str:
    document = {"exit_status": exit_status(findings), "findings": [asdict(found) for found in findings]}
    return json.dumps(document, indent=2)


def as_text(findings: Sequence[Finding]) -> str:
    """One paragraph each, in the order of the looks; the last line sums up."""
    lines = []
    for found in findings:
        lines.append(f"{found.verdict.upper() if found.verdict is Verdict.WRONG else found.verdict:8} {found.about}: "
                     f"{found.message}")
        if found.remedy:
            lines.append(f"{'':8} -> {found.remedy}")
    faults = sum(found.verdict is Verdict.WRONG for found in findings)
    warnings = sum(found.verdict is Verdict.WARNING for found in findings)
    lines.append("" if faults or warnings else "\nNothing is wrong.")
    if faults or warnings:
        lines.append(f"{faults} wrong, {warnings} warning(s).")
    return "\n".join(lines)

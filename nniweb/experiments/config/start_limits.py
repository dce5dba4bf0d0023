"""What Linux takes when a program is started: one text of its command line or environment is not endless."""

from __future__ import annotations

from collections.abc import Mapping

from nniweb.experiments.config.findings import Findings

#: Bytes of one argument, or of ``NAME=value``: Linux's MAX_ARG_STRLEN less the NUL at the end.
MOST_BYTES = 131_071


def check_start_limits(command: str, environment: Mapping[str, str], findings: Findings) -> None:
    """Finds what would fail each trial with "Argument list too long"."""
    size = len(command.encode(errors="surrogatepass"))
    if size > MOST_BYTES:
        findings.add("trialCommand", f"has {size} bytes; at most {MOST_BYTES} can be started; write it to a "
                                     "script, and run the script")
    for name, value in environment.items():
        size = len(f"{name}={value}".encode(errors="surrogatepass"))
        if size > MOST_BYTES:
            findings.add(("environment", name), f"has {size} bytes with its name; at most {MOST_BYTES} can be given to "
                                                "a program; write it to a file, and give the file's path")

"""What is said of a cluster none of whose machines can be used."""

from __future__ import annotations

from collections.abc import Sequence

from trainingservice.reasons import PLATFORM, Reason, as_document, code_of

#: So many machines are named.
_TOLD = 5


def every_machine(machines: Sequence[tuple[str, str]]) -> Reason:
    """Of the machines' names, and of each why it cannot be used (a ``Reason``, or a plug-in's own words)."""
    told = [{"machine": name, "said": str(why), **as_document(why, PLATFORM)} for name, why in machines[:_TOLD]]
    codes = {code_of(why, PLATFORM) for _, why in machines}
    return Reason("every_machine", machines=told, count=len(machines), common=codes.pop() if len(codes) == 1 else "")

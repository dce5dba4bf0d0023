"""What is said of a cluster none of whose machines can be used, and of one some of whose machines cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainingservice.reasons import PLATFORM, Reason, as_document, code_of

#: So many machines are named.
_TOLD = 5


def some_machines(machines: Sequence[tuple[str, str]], count: int) -> Reason:
    """As ``every_machine``, of those that cannot be used among ``count`` machines."""
    return Reason("some_machines", machines=_told(machines), bad=len(machines), count=count)


def every_machine(machines: Sequence[tuple[str, str]]) -> Reason:
    """Of the machines' names, and of each why it cannot be used (a ``Reason``, or a plug-in's own words)."""
    codes = {code_of(why, PLATFORM) for _, why in machines}
    return Reason("every_machine", machines=_told(machines), count=len(machines),
                  common=codes.pop() if len(codes) == 1 else "")


def _told(machines: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"machine": name, "said": str(why), **as_document(why, PLATFORM)} for name, why in machines[:_TOLD]]

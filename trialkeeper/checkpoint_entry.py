"""What the journal tells of a checkpoint: its entry, its name, and why it could be neither kept nor put back."""

from typing import Any, Dict, Optional

from trialkeeper import contract
from trialkeeper.folder_reader import is_below

#: Longest name of a checkpoint, in bytes.
LONGEST_NAME = 255


class Problem(Exception):
    """Why a checkpoint can be neither kept nor put back. ``code``: one of contract.CHECKPOINT_PROBLEMS."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__("%s: %s" % (code, detail) if detail else code)
        self.code, self.detail = code, detail


def is_name(name: str) -> bool:
    """Whether a checkpoint may be called so: one part of a path that is text and does not begin with a dot."""
    return is_below(name) and "/" not in name and not name.startswith(".") and name != contract.LATEST_FILE \
        and is_text(name) and len(name.encode()) <= LONGEST_NAME


def is_text(name: str) -> bool:
    """Whether a file's name can be written as UTF-8."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def entry(event: str, *, k: int, name: str, step: Optional[int], checkpoint_id: Optional[str] = None, size: int = 0,
          sequence: int = 0, problem: Optional[Problem] = None) -> contract.Entry:
    """A checkpoint's entry of the journal."""
    found: Dict[str, Any] = {"type": contract.CHECKPOINT, "event": event, "id": checkpoint_id, "k": k, "name": name,
                             "step": step, "size": size, "sequence": sequence}
    if problem is not None:
        found.update(problem=problem.code, detail=problem.detail[:500])
    return found

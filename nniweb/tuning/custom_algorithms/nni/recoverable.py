"""``nni.recoverable``: checkpoints of algorithms. Here algorithms are rebuilt from the record instead."""

import os
from typing import Any


class Recoverable:
    """The methods are called by nobody; they are here for subclasses that override or call them."""

    def load_checkpoint(self) -> None:
        """Does nothing."""

    def save_checkpoint(self) -> None:
        """Does nothing."""

    def get_checkpoint_path(self) -> str | None:
        """A folder of the experiment's own, None in a process without one."""
        path = os.environ.get("NNI_CHECKPOINT_DIRECTORY")
        return path if path and os.path.isdir(path) else None

    def recover_parameter_id(self, data: Any) -> int:
        """Nothing has to be recovered: parameter ids begin at 0."""
        return -1

    def is_created_in_previous_exp(self, param_id: Any) -> bool:
        """Never: a rebuilt algorithm has made all of them itself."""
        return False

    def _on_exit(self) -> None:
        """Does nothing."""

    def _on_error(self) -> None:
        """Does nothing."""

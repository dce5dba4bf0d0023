"""``nni.recoverable``: checkpoints of algorithms. Here algorithms are rebuilt from the record instead."""


class Recoverable:
    """The methods are called by nobody; they are here for subclasses that override or call them."""

    def load_checkpoint(self) -> None:
        """Does nothing."""

    def save_checkpoint(self) -> None:
        """Does nothing."""

    def get_checkpoint_path(self) -> None:
        """There is none."""

    def _on_exit(self) -> None:
        """Does nothing."""

    def _on_error(self) -> None:
        """Does nothing."""

"""Results and checkpoints of a training with Keras 3. docs/callbacks.md has an example."""

from keras.callbacks import Callback

from .checkpoints import save_checkpoint
from .reporter import Reporter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .reporter import Names


class ReportCallback(Callback):
    """Reports a metric after each epoch, and the last value as the final result.

        model.fit(..., validation_data=..., callbacks=[ReportCallback("val_accuracy")])
    """

    def __init__(self, metric: "Names" = "val_loss", final: bool = True, checkpoint_every: int = 0) -> None:
        """``metric``: a name of Keras's logs, or several, of which the first is the result. ``final`` False: the script
        reports the final result itself. ``checkpoint_every``: save the model after each so many epochs; 0: never.
        """
        super().__init__()
        self._reporter = Reporter(metric, final)
        self._checkpoint_every = checkpoint_every

    def on_epoch_end(self, epoch: int, logs: "Any" = None) -> None:
        """Called by Keras. ``epoch``: counted from 0. Raises ValueError where there is no such metric."""
        found = logs or {}
        # with validation_freq there are epochs without a validation
        validated = any(name.startswith("val_") for name in found)
        self._reporter.step(found, may_follow=not validated and any(
            name.startswith("val_") for name in self._reporter.names))
        if self._checkpoint_every and (epoch + 1) % self._checkpoint_every == 0:
            with save_checkpoint("epoch-%d.keras" % epoch, step=epoch) as path:
                self.model.save(path)

    def on_train_end(self, logs: "Any" = None) -> None:
        """Called by Keras. Raises ValueError where nothing was reported."""
        self._reporter.end()

"""Results and checkpoints of a training with PyTorch Lightning. docs/callbacks.md has an example."""

import sys

if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback  # the same library under its older name
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback

from .checkpoints import save_checkpoint
from .reporter import Reporter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .reporter import Names

_VALIDATION, _EPOCH = "validation_end", "train_epoch_end"


class ReportCallback(Callback):
    """Reports a metric that the module logs, after each validation, and the last value as the final result.

        Trainer(callbacks=[ReportCallback("val_loss")])

    Of several processes the first one reports.
    """

    def __init__(self, metric: "Names" = "val_loss", on: str = _VALIDATION, final: bool = True,
                 checkpoint_every: int = 0) -> None:
        """``metric``: a name given to ``self.log``, or several, of which the first is the result. ``on``:
        "validation_end", or "train_epoch_end" for metrics of ``training_step``. ``final`` False: the script reports the
        final result itself. ``checkpoint_every``: save a checkpoint after each so many epochs; 0: never.
        """
        super().__init__()
        if on not in (_VALIDATION, _EPOCH):
            raise ValueError('on must be "%s" or "%s", not %r' % (_VALIDATION, _EPOCH, on))
        self._reporter = Reporter(metric, final)
        self._on = on
        self._checkpoint_every = checkpoint_every

    def on_validation_end(self, trainer: "Any", pl_module: "Any") -> None:
        """Called by Lightning. Raises ValueError where there is no such metric."""
        if self._on == _VALIDATION and trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._report(trainer)

    def on_train_epoch_end(self, trainer: "Any", pl_module: "Any") -> None:
        """Called by Lightning in each process. Raises ValueError where there is no such metric."""
        if self._on == _EPOCH:
            self._report(trainer)
        epoch = trainer.current_epoch
        if self._checkpoint_every and (epoch + 1) % self._checkpoint_every == 0:
            self._save(trainer, epoch)

    def on_fit_end(self, trainer: "Any", pl_module: "Any") -> None:
        """Called by Lightning. Raises ValueError where nothing was reported."""
        if trainer.is_global_zero:
            self._reporter.end()

    def _report(self, trainer: "Any") -> None:
        if trainer.is_global_zero:
            self._reporter.step(trainer.callback_metrics)

    @staticmethod
    def _save(trainer: "Any", epoch: int) -> None:
        """Lightning collects the state from all processes, so each calls it, with the path of the first."""
        if trainer.is_global_zero:
            with save_checkpoint("epoch-%d.ckpt" % epoch, step=epoch) as path:
                trainer.save_checkpoint(trainer.strategy.broadcast(path))
        else:
            trainer.save_checkpoint(trainer.strategy.broadcast(""))

"""Results and checkpoints of a training with XGBoost. docs/callbacks.md has an example."""

from xgboost.callback import TrainingCallback

from .checkpoints import save_checkpoint
from .reporter import Reporter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .reporter import Names


class ReportCallback(TrainingCallback):
    """Reports a metric after each round. The final result is that of the best round after early stopping, else of the
    last round.

        xgboost.train(..., evals=[(valid, "valid")], callbacks=[ReportCallback("valid-auc")])
    """

    def __init__(self, metric: "Names", final: bool = True, checkpoint_every: int = 0) -> None:
        """``metric``: name of a data set and of its metric, as XGBoost prints them, or several, of which the first is
        the result. ``final`` False: the script reports the final result itself. ``checkpoint_every``: save the booster
        after each so many rounds, of ``xgboost.train`` and of estimators; 0: never.
        """
        super().__init__()
        self._reporter = Reporter(metric, final)
        self._checkpoint_every = checkpoint_every
        self._first = 0  # rounds that the booster had before: it goes on from a checkpoint
        self._results = []  # type: list[Any]  # by round

    def before_training(self, model: "Any") -> "Any":
        """Called by XGBoost."""
        self._first, self._results = model.num_boosted_rounds(), []
        return model

    def after_iteration(self, model: "Any", epoch: int, evals_log: "Any") -> bool:
        """Called by XGBoost. Raises ValueError where there is no such metric. False: go on."""
        found = {"%s-%s" % (data, name): values[-1] for data, log in evals_log.items() for name, values in log.items()}
        # a cross-validation has pairs of mean and standard deviation
        self._reporter.step({name: value[0] if isinstance(value, tuple) else value for name, value in found.items()})
        self._results.append(self._reporter.last)
        step = self._first + len(self._results) - 1
        if self._checkpoint_every and (step + 1) % self._checkpoint_every == 0:
            with save_checkpoint("round-%d.ubj" % step, step=step) as path:
                model.save_model(path)
        return False

    def after_training(self, model: "Any") -> "Any":
        """Called by XGBoost. Raises ValueError where nothing was reported."""
        best = model.attr("best_iteration")
        place = -1 if best is None else int(best) - self._first
        self._reporter.end(self._results[place] if 0 <= place < len(self._results) else None)
        return model

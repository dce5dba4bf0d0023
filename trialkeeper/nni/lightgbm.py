"""Results and checkpoints of a training with LightGBM. docs/callbacks.md has an example."""

from .checkpoints import save_checkpoint
from .reporter import Reporter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .reporter import Names


class ReportCallback:
    """Reports a metric after each round. ``end`` reports the final result: LightGBM does not tell callbacks that a
    training has ended.

        report = ReportCallback("valid_0-auc")
        report.end(lightgbm.train(..., callbacks=[lightgbm.early_stopping(10), report]))
    """

    #: Before ``early_stopping`` (30), which ends the round with an exception.
    order = 20
    before_iteration = False

    def __init__(self, metric: "Names", checkpoint_every: int = 0) -> None:
        """``metric``: name of a data set and of its metric, such as ``valid_0-auc``, or several, of which the first is
        the result. ``checkpoint_every``: save the booster after each so many rounds; 0: never.
        """
        self._reporter = Reporter(metric)
        self._checkpoint_every = checkpoint_every
        self._results = {}  # type: dict[int, Any]  # by round, counted from 1

    def __call__(self, env: "Any") -> None:
        """Called by LightGBM after a round. Raises ValueError where there is no such metric."""
        self._reporter.step({"%s-%s" % (row[0], row[1]): row[2] for row in env.evaluation_result_list or []})
        self._results[env.iteration + 1] = self._reporter.last
        if self._checkpoint_every and (env.iteration + 1) % self._checkpoint_every == 0:
            with save_checkpoint("round-%d.txt" % env.iteration, step=env.iteration) as path:
                env.model.save_model(path)

    def end(self, trained: "Any") -> None:
        """Report the final result: that of the best round after early stopping, else of the last round.

        ``trained``: what ``lightgbm.train`` returned, or a fitted estimator. Raises ValueError where nothing was
        reported.
        """
        best = getattr(trained, "best_iteration", None) or getattr(trained, "best_iteration_", None)
        self._reporter.end(self._results.get(best or 0))

"""Results of a training with the Trainer of Hugging Face's transformers. docs/callbacks.md has an example."""

from transformers import TrainerCallback

from .reporter import Reporter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .reporter import Names


class ReportCallback(TrainerCallback):
    """Reports a metric after each evaluation of a training, and a final result when it has ended.

        Trainer(..., callbacks=[ReportCallback("eval_loss")])

    The final result is the last value; with ``load_best_model_at_end`` and this metric as ``metric_for_best_model`` it
    is that of the best model. Of several processes the first one reports.
    """

    def __init__(self, metric: "Names" = "eval_loss", final: bool = True) -> None:
        """``metric``: a name of the evaluation's metrics, or several, of which the first is the result. ``final``
        False: the script reports the final result itself.
        """
        super().__init__()
        self._reporter = Reporter(metric, final)
        self._results = {}  # type: dict[float, Any]  # by the value of the first metric
        self._training = False
        self._missed = None  # type: Any  # the step at which the metric was missing first

    def on_train_begin(self, args: "Any", state: "Any", control: "Any", **kwargs: "Any") -> None:
        """Called by the Trainer."""
        self._training = True

    def on_evaluate(self, args: "Any", state: "Any", control: "Any", metrics: "Any" = None, **kwargs: "Any") -> None:
        """Called by the Trainer. Raises ValueError where there is no such metric."""
        if not (self._training and state.is_world_process_zero):
            return
        # each of several evaluation data sets has an evaluation of its own at the same step, with its own metrics
        may_follow = self._reporter.last is not None or self._missed in (None, state.global_step)
        if self._reporter.step(metrics or {}, may_follow=may_follow):
            self._results[float(metrics[self._reporter.names[0]])] = self._reporter.last
        else:
            self._missed = state.global_step

    def on_train_end(self, args: "Any", state: "Any", control: "Any", **kwargs: "Any") -> None:
        """Called by the Trainer. Raises ValueError where nothing was reported."""
        self._training = False
        if state.is_world_process_zero:
            self._reporter.end(self._of_best_model(args, state))

    def _of_best_model(self, args: "Any", state: "Any") -> "Any":
        """The result of the best model, where that was loaded at the end; None where the last model stays."""
        names, wanted = self._reporter.names, args.metric_for_best_model
        if not args.load_best_model_at_end or wanted is None or state.best_metric is None:
            return None
        if (wanted if wanted.startswith("eval_") else "eval_" + wanted) != names[0]:
            return None
        best = float(state.best_metric)
        # an earlier attempt, from whose checkpoint this one went on, may have found it
        return self._results.get(best) or (self._reporter.result([best]) if len(names) == 1 else None)

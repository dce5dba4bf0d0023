"""What the callbacks for training libraries share: metrics of these names are reported, the first one as the result."""

TYPE_CHECKING = False  # typing itself would cost more than all the rest
if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence, Union

    Names = Union[str, Sequence[str]]


class Reporter:
    """Reports one metric as a number; of several, an object with each under its name and the first as ``default``.

    For the thread that trains.
    """

    def __init__(self, metric: "Names", final: bool = True) -> None:
        """``final``: whether ``end`` reports the final result. Raises ValueError where no metric is named."""
        self.names = [metric] if isinstance(metric, str) else list(metric)
        if not self.names or not all(isinstance(name, str) and name for name in self.names):
            raise ValueError("metric must be the name of a metric or a list of names, not %r" % (metric,))
        self.last = None  # type: Any
        self._final = final

    def step(self, found: "Mapping[str, Any]", may_follow: bool = False) -> bool:
        """Report an intermediate result. ``found``: metrics by name, numbers or tensors with one element.

        ``may_follow``: a metric that is missing now may come at a later step, so nothing is reported and the answer is
        False. Otherwise it raises ValueError, which names what is there.
        """
        missing = [name for name in self.names if name not in found]
        if missing and may_follow:
            return False
        if missing:
            raise ValueError("there is no metric %r to report; there are: %s"
                             % (missing[0], ", ".join(sorted(map(str, found))) or "none"))
        self.report([found[name] for name in self.names])
        return True

    def report(self, values: "Sequence[Any]") -> None:
        """Report an intermediate result. ``values``: of the metrics, in their order."""
        from . import report_intermediate_result
        self.last = self.result(values)
        report_intermediate_result(self.last)

    def result(self, values: "Sequence[Any]") -> "Any":
        """What is reported for these values."""
        numbers = [float(value) for value in values]
        if len(numbers) == 1:
            return numbers[0]
        return dict([("default", numbers[0])] + list(zip(self.names, numbers)))

    def end(self, result: "Any" = None) -> None:
        """Report the final result: this one, or the last that ``step`` reported. Raises ValueError where there is none.
        """
        from . import report_final_result
        if not self._final:
            return
        result = self.last if result is None else result
        if result is None:
            raise ValueError("the training has ended and had no metric %r to report" % self.names[0])
        report_final_result(result)

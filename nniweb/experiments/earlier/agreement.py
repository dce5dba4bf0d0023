"""How well the results of an earlier experiment agree with those of the one that started from them, as a reason."""

from nniweb.experiments.models import EarlierExperiment
from trainingservice.reasons import Reason


def agreement_reason(one: EarlierExperiment) -> Reason:
    """A code with its arguments; its text is the sentence for people."""
    if one.correlation is None:
        return Reason("earlier_not_compared", compared=one.compared)
    code = "earlier_agrees" if one.weight else "earlier_disagrees"
    return Reason(code, compared=one.compared, correlation=round(one.correlation, 3))

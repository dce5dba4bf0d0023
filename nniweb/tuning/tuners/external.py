"""The tuner External: a program outside of the server proposes parameters over REST, and reads the results there."""

from nniweb.tuning.class_args import ClassArgs
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuner_base.tuner import ResultsNeeded, Tuner


class External(Tuner):
    """Proposes nothing itself. Proposals become trials as soon as they arrive (``actions.external_proposals``); an
    assessor works as with any other tuner.
    """

    def propose(self, number: int) -> Parameters:
        raise ResultsNeeded

    def note_asked(self, number: int, parameters: Parameters) -> None:
        """The program outside knows what it proposed."""

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        """The program outside reads the results."""


def build(space: SearchSpace, seed: int, _optimize_mode: str, _args: ClassArgs) -> External:
    return External(space, seed)

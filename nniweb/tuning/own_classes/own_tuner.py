"""A user's tuner behind our interface."""

import contextlib
import copy
from collections.abc import Mapping
from typing import Any

from nniweb.tuning.own_classes.loading import make_own
from nniweb.tuning.own_classes.nni import NoMoreTrialError
from nniweb.tuning.search_space import Parameters, SearchSpace
from nniweb.tuning.tuner import NoMoreParameters, ResultsNeeded, Tuner


class OwnTuner(Tuner):
    """Calls the methods of NNI's ``Tuner`` with what NNI would give them; results are numbers (of an object its
    ``default``). After a restart the recorded history is played to a new object: it is asked for each proposal again,
    and told the parameters that the trial really had. So one whose choices follow from its arguments, its results and
    Python's or numpy's global generator goes on as if nothing had happened.
    """

    def __init__(self, space: SearchSpace, seed: int, document: Mapping[str, Any]) -> None:
        super().__init__(space, seed)
        self._own = make_own("tuner", document, "generate_parameters", seed)
        self._own.update_search_space(space.to_json())
        self._running: set[int] = set()
        self._valued: set[int] = set()

    def ask(self, number: int) -> Parameters:
        parameters = self.propose(number)
        self._running.add(number)
        return parameters

    def propose(self, number: int) -> Parameters:
        try:
            [parameters] = self._own.generate_multiple_parameters([number]) or [None]
        except NoMoreTrialError:
            parameters = None
        if parameters is None:
            if self._running:
                raise ResultsNeeded("the tuner waits for results")
            raise NoMoreParameters("the tuner has nothing more to propose")
        return copy.deepcopy(dict(parameters))

    def note_asked(self, number: int, parameters: Parameters) -> None:
        with contextlib.suppress(NoMoreTrialError):  # it answered otherwise before; the record is what counts
            self._own.generate_multiple_parameters([number])
        self._running.add(number)

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str) -> None:
        if number is None:
            if value is not None:  # a result of an earlier life
                self._own.import_data([{"parameter": parameters, "value": value}])
            return
        if value is not None and number not in self._valued:
            self._valued.add(number)
            self._own.receive_trial_result(number, parameters, value, customized=False)
        if number in self._running:
            self._running.discard(number)
            self._own.trial_end(number, status == "SUCCEEDED")

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        self._own.update_search_space(space.to_json())

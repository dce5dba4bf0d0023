"""``nni.tuner.Tuner``: the base class of users' tuners."""

import logging
from typing import Any

from nniweb.tuning.custom_algorithms.nni import NoMoreTrialError
from nniweb.tuning.custom_algorithms.nni.recoverable import Recoverable
from nniweb.tuning.custom_algorithms.taken_arguments import taken

logger = logging.getLogger(__name__)


class Tuner(Recoverable):
    """A subclass writes ``generate_parameters``, ``receive_trial_result`` and ``update_search_space``."""

    _accept_customized = False

    def accept_customized_trials(self, accept: bool = True) -> None:
        """Whether the tuner is told results of trials whose parameters a person picked."""
        self._accept_customized = accept

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
        """The parameters of one trial. Raises NoMoreTrialError."""
        raise NotImplementedError(f"{type(self).__name__} has no generate_parameters")

    def generate_multiple_parameters(self, parameter_id_list: list[int], **kwargs: Any) -> list[dict[str, Any]]:
        """The parameters of several trials; fewer when there are no more."""
        found, more = [], taken(self.generate_parameters, kwargs)
        for parameter_id in parameter_id_list:
            try:
                found.append(self.generate_parameters(parameter_id, **more))
            except NoMoreTrialError:
                break
        return found

    def receive_trial_result(self, parameter_id: int, parameters: dict[str, Any], value: Any, **kwargs: Any) -> None:
        """The final result of a trial."""
        raise NotImplementedError(f"{type(self).__name__} has no receive_trial_result")

    def receive_customized_trial_result(self, parameter_id: int | None, parameters: dict[str, Any], value: Any,
                                        **kwargs: Any) -> None:
        """The final result of a trial whose parameters a person picked."""
        logger.info("the result of a trial picked by hand is not used by %s", type(self).__name__)

    def trial_end(self, parameter_id: int, success: bool, **kwargs: Any) -> None:
        """A trial has ended, with or without a result."""

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        """The search space; called first of all, and again when it is changed."""
        raise NotImplementedError(f"{type(self).__name__} has no update_search_space")

    def import_data(self, data: list[dict[str, Any]]) -> None:
        """Earlier results, each with ``parameter`` and ``value``."""
        logger.info("%s cannot use earlier results", type(self).__name__)

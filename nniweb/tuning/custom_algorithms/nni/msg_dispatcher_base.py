"""``nni.runtime.msg_dispatcher_base`` (in NNI 1 ``nni.msg_dispatcher_base``): the base class of users' advisors."""

from typing import Any

from nniweb.tuning.custom_algorithms.nni.protocol import CommandType, send
from nniweb.tuning.custom_algorithms.nni.recoverable import Recoverable


class MsgDispatcherBase(Recoverable):
    """A subclass writes the handlers and answers with ``send``. They are called by one thread, one after another."""

    def __init__(self, command_channel_url: str | None = None) -> None:
        super().__init__()
        self.stopping = False
        self.worker_exceptions: list[Exception] = []

    def send(self, command: CommandType, data: str) -> None:
        """Say something, as the function ``send`` does."""
        send(command, data)

    def report_error(self, error: str) -> None:
        """The advisor cannot go on: its experiment ends with this message."""
        self.send(CommandType.Error, error)

    def process_command(self, command: CommandType, data: Any) -> None:
        """Call the handler of a message."""
        handlers = {
            CommandType.Initialize: self.handle_initialize,
            CommandType.RequestTrialJobs: self.handle_request_trial_jobs,
            CommandType.UpdateSearchSpace: self.handle_update_search_space,
            CommandType.ImportData: self.handle_import_data,
            CommandType.AddCustomizedTrialJob: self.handle_add_customized_trial,
            CommandType.ReportMetricData: self.handle_report_metric_data,
            CommandType.TrialEnd: self.handle_trial_end,
            CommandType.Ping: self.handle_ping,
        }
        handlers[command](data)

    def handle_initialize(self, data: Any) -> None:
        """The search space, first of all; to be answered with Initialized."""
        raise self._not_written("handle_initialize")

    def handle_request_trial_jobs(self, data: int) -> None:
        """So many trials are wanted: NewTrialJob for each, now or later, or NoMoreTrialJobs."""
        raise self._not_written("handle_request_trial_jobs")

    def handle_update_search_space(self, data: Any) -> None:
        """The search space was changed."""
        raise self._not_written("handle_update_search_space")

    def handle_import_data(self, data: list[dict[str, Any]]) -> None:
        """Earlier results, each with ``parameter`` and ``value``."""
        raise self._not_written("handle_import_data")

    def handle_add_customized_trial(self, data: Any) -> None:
        """A person has run a trial with parameters of their own."""
        raise self._not_written("handle_add_customized_trial")

    def handle_report_metric_data(self, data: dict[str, Any]) -> None:
        """A result: ``parameter_id``, ``trial_job_id``, ``type``, ``sequence``, and ``value`` as JSON text."""
        raise self._not_written("handle_report_metric_data")

    def handle_trial_end(self, data: dict[str, Any]) -> None:
        """A trial has ended: ``trial_job_id``, ``event`` (its status), ``hyper_params`` (what was sent, JSON text)."""
        raise self._not_written("handle_trial_end")

    def handle_ping(self, data: Any) -> None:
        """Nothing to do."""

    def _not_written(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {name}")

"""Log lines as JSON objects without secrets."""

from typing import Any

from pythonjsonlogger.json import JsonFormatter

from nniweb.experiments.secrets.masking import masked_wholly

#: Of the line itself: none of it comes from what was said.
_OURS = frozenset({"time", "level", "logger", "cluster", "experiment", "trial"})


class MaskingJsonFormatter(JsonFormatter):
    """Strikes secrets out of each text of a line, other than time, level, logger and ids."""

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return {key: masked_wholly(value) if isinstance(value, str) and key not in _OURS else value
                for key, value in super().process_log_record(log_data).items()}

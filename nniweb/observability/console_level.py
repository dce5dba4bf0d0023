"""What the console shows of our own loggers, which say more than that for the logs of experiments."""

import logging

OURS = ("nniweb", "trainingservice")


class AtLeast(logging.Filter):
    """A filter of handlers: of our own loggers only records of ``level`` (its name) and above; of others all."""

    def __init__(self, level: str) -> None:
        super().__init__()
        self._level = logging.getLevelNamesMapping()[level]

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= self._level or record.name.partition(".")[0] not in OURS

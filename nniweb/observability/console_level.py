"""What the console shows: of our own loggers less than the logs of experiments have, and no tries of the HTTP library.
"""

import logging

OURS = ("nniweb", "trainingservice")


class AtLeast(logging.Filter):
    """A filter of handlers: of our own loggers only records of ``level`` (its name) and above; of others all."""

    def __init__(self, level: str) -> None:
        super().__init__()
        self._level = logging.getLevelNamesMapping()[level]

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= self._level or record.name.partition(".")[0] not in OURS


class NoRetries(logging.Filter):
    """A filter of handlers: not that the HTTP library tries again, unless ``level`` is DEBUG. What came of all tries is
    said by whoever asked for them.
    """

    def __init__(self, level: str) -> None:
        super().__init__()
        self._shows_all = level == "DEBUG"

    def filter(self, record: logging.LogRecord) -> bool:
        return (self._shows_all or record.levelno >= logging.ERROR
                or record.name not in ("urllib3.connectionpool", "urllib3.util.retry")
                or not str(record.msg).startswith("Retrying"))

"""Logs of refused requests. What a stranger sends is no defect of the server: it leaves a line, no traceback."""

import logging


class NoTracebackOfRefusals(logging.Filter):
    """For handlers: strikes out the traceback that Django logs with an answer below 500 (a page that somebody may not
    open, a host that is not ours).
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("django.") and 400 <= getattr(record, "status_code", 500) < 500:
            record.exc_info, record.exc_text = None, None
        return True

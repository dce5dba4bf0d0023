"""Strikes secrets out of what is said and logged: those that the present work uses, and what looks like one.

Never those of other work (``trainingservice.secrets_in_use``): whoever sees where a text of theirs is struck out would
learn which word is somebody's secret.
"""

import copy
import logging
import re
from collections.abc import Iterable

from trainingservice.secrets_in_use import SHORTEST, in_use

MASK = "***"

_PATTERNS = (
    (re.compile(r"nniweb_[A-Za-z0-9_-]{20,}"), MASK),
    (re.compile(r"(?i)\b(bearer|basic|token)\s+[A-Za-z0-9+/._~=-]{8,}"), rf"\1 {MASK}"),
    # the ticket in the address of a TensorBoard
    (re.compile(r"(/tensorboard/\w+/)[\w-]{20,60}"), rf"\1{MASK}"),
    # https://user:secret@host
    (re.compile(r"(://[^\s/:@]*:)[^\s/@]+@"), rf"\1{MASK}@"),
    # password=..., "secret_key": "..."
    (re.compile(r"""(?i)((?:password|passwd|passphrase|secret|(?:secret|api|access|account|private)[_-]?key"""
                r"""|(?:access|auth)[_-]?token)["']?\s*[=:]\s*["']?)[^\s"',;&]+"""), rf"\1{MASK}"),
)


_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9+/._~=-]{8,}")

def struck_out(text: str) -> str:
    """``text`` without the secrets that the present work uses, and without what comes after "Bearer" (of Kubernetes
    the client alone has read the token). Nothing else of it changes.
    """
    for secret in in_use():
        text = text.replace(secret, MASK)
    return _BEARER.sub(rf"\1{MASK}", text)


def masked_wholly(text: str) -> str:
    """``masked`` with the secrets that the present work uses."""
    return masked(text, in_use())


#: What moves the cursor, colours or turns around what a terminal shows.
_UNPRINTABLE = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))} | {
    code: f"\\u{code:04x}" for code in (0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))}


class MaskingFormatter(logging.Formatter):
    """Lines of text without secrets, in the traceback as well. What others sent cannot act on a terminal, nor pass for
    a line of its own. Time, level and logger are never struck out.
    """

    def format(self, record: logging.LogRecord) -> str:
        record = copy.copy(record)  # of the other handlers each masks by itself
        record.msg, record.args = masked_wholly(record.getMessage()), None
        if record.exc_info:
            record.exc_text = masked_wholly(self.formatException(record.exc_info))
        if record.stack_info:
            record.stack_info = masked_wholly(record.stack_info)
        return super().format(record).translate(_UNPRINTABLE)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).replace("\n", "\n    ")


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` with ``MASK`` in place of each of ``secrets`` and of what looks like a token, password or key."""
    for secret in sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text

"""Strikes secrets out of what is logged: those that are known, and what looks like one."""

import logging
import re
import threading
from collections.abc import Iterable

MASK = "***"
#: A known secret shorter than this is not looked for: it would strike out half of the text.
SHORTEST = 6

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
#: So many secrets are remembered, the latest used.
MOST_KNOWN = 500
_known: dict[str, None] = {}
_known_lock = threading.Lock()


def learn(secret: str) -> None:
    """Strike this secret out of everything that this process logs from now on."""
    if len(secret) >= SHORTEST:
        with _known_lock:
            _known.pop(secret, None)
            _known[secret] = None
            if len(_known) > MOST_KNOWN:
                del _known[next(iter(_known))]


def struck_out(text: str) -> str:
    """``text`` without the secrets that this process has sealed, opened or been given, and without what comes after
    "Bearer" (of Kubernetes the client alone has read the token). Nothing else of it changes.
    """
    with _known_lock:
        known = sorted(_known, key=len, reverse=True)
    for secret in known:
        text = text.replace(secret, MASK)
    return _BEARER.sub(rf"\1{MASK}", text)


def masked_wholly(text: str) -> str:
    """``masked`` with all secrets that this process has sealed or opened."""
    with _known_lock:
        known = list(_known)
    return masked(text, known)


#: What moves the cursor, colours or turns around what a terminal shows.
_UNPRINTABLE = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))} | {
    code: f"\\u{code:04x}" for code in (0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))}


class MaskingFormatter(logging.Formatter):
    """Lines of text without secrets, in the traceback as well. What others sent cannot act on a terminal, nor pass for
    a line of its own.
    """

    def format(self, record: logging.LogRecord) -> str:
        return masked_wholly(super().format(record)).translate(_UNPRINTABLE)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).replace("\n", "\n    ")


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` with ``MASK`` in place of each of ``secrets`` and of what looks like a token, password or key."""
    for secret in sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text

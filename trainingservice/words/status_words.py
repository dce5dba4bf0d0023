"""What people read for a status, on pages and in terminals: static/js/lib/formats.js has the same. Programs, files and
filters use the names.
"""

#: Statuses that people read by another word than their name.
WORDS = {
    "USER_CANCELED": "STOPPED", "SYS_CANCELED": "STOPPED BY PLATFORM", "EARLY_STOPPED": "STOPPED EARLY",
    "NO_MORE_TRIAL": "FINISHING", "TUNER_NO_MORE_TRIAL": "FINISHING"}


def status_word(status: str) -> str:
    """The word for the status of a trial or an experiment."""
    return WORDS.get(status, status)

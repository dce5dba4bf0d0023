"""The sentence on a trial whose keeper is refused for its version, and how it is known again."""

from trainingservice.receiver.report_reading import VERSIONS
from trialkeeper import contract

_BEGINNING = "Its keeper speaks version "


def sentence(version: object) -> str:
    """What is said of a keeper with this version, which may be anything that JSON has."""
    is_newer = isinstance(version, int) and version > contract.PROTOCOL_VERSION
    spoken = " and ".join(str(each) for each in sorted(VERSIONS))
    return (f"{_BEGINNING}{str(version)[:20]} of the keepers' protocol and was started by "
            f"{'a newer' if is_newer else 'another'} NNI Web; this server understands {spoken}. The trial goes on and "
            "what it reports waits with it, until a day after its end: start a version that understands it, then all "
            "of it comes (docs/upgrade.md).")


def is_sentence(message: str) -> bool:
    """Whether a trial's message is such a sentence; a report that is taken refutes it."""
    return message.startswith(_BEGINNING)

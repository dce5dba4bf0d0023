"""Why a trial's keeper is refused for the version of its protocol."""

from trainingservice.reasons import Reason
from trainingservice.receiver.report_reading import VERSIONS
from trialkeeper import contract

CODE = "keeper_version"


def why_refused(version: object) -> Reason:
    """``version`` may be anything that JSON has."""
    return Reason(CODE, version=str(version)[:20],
                  newer=isinstance(version, int) and version > contract.PROTOCOL_VERSION, spoken=sorted(VERSIONS))

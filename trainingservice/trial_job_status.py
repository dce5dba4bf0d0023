"""The statuses of a trial job and the moves between them: the one table everybody asks."""

from enum import StrEnum


class TrialJobStatus(StrEnum):
    """What was seen of a trial job. Names and meanings are NNI's."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    UNKNOWN = "UNKNOWN"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    USER_CANCELED = "USER_CANCELED"
    SYS_CANCELED = "SYS_CANCELED"
    EARLY_STOPPED = "EARLY_STOPPED"

    @property
    def is_end(self) -> bool:
        """True where nothing can follow: the first end wins and is final."""
        return self in ENDS


_S = TrialJobStatus

#: The ends. UNKNOWN is not one: not being able to ask does not mean dead.
ENDS = frozenset({_S.SUCCEEDED, _S.FAILED, _S.USER_CANCELED, _S.SYS_CANCELED, _S.EARLY_STOPPED})
#: Statuses from which a trial can still move.
UNFINISHED = frozenset(set(_S) - ENDS)

#: status -> statuses it may go to.
MOVES: dict[TrialJobStatus, frozenset[TrialJobStatus]] = {
    _S.WAITING: frozenset({_S.RUNNING, _S.UNKNOWN}) | ENDS,
    _S.RUNNING: frozenset({_S.WAITING, _S.UNKNOWN}) | ENDS,  # back to WAITING when requeued
    _S.UNKNOWN: frozenset({_S.WAITING, _S.RUNNING}) | ENDS,
    **{end: frozenset() for end in ENDS},
}


def sources_of(status: TrialJobStatus) -> frozenset[TrialJobStatus]:
    """The statuses from which a trial may move to ``status``."""
    return frozenset(source for source, goals in MOVES.items() if status in goals)

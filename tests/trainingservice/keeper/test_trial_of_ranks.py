"""What the states of its ranks mean for a trial, by a table."""

import pytest

from trainingservice.keeper.trial_of_ranks import RankState, trial_of_ranks, with_failed_rank
from trainingservice.nodes.node_names import job_and_rank, node_name
from trainingservice.polling.job_record import Observation
from trainingservice.reasons import Reason
from trainingservice.trial_job_status import TrialJobStatus

S = TrialJobStatus


def ranks(*words: str) -> list[RankState]:
    """Ranks by words: a status, and for one that failed how it ended and when."""
    found = []
    for rank, word in enumerate(words):
        status, *more = word.split()
        reason, at = (more[0] if more else ""), (float(more[1]) if len(more) > 1 else 0.0)
        seen = None if status == "?" else Observation(S(status), message=f"said {rank}" if reason else None)
        found.append(RankState(rank, f"m{rank}", None, seen, reason, "boom" if reason else "", at))
    return found


@pytest.mark.parametrize(("states", "status", "stop", "failed"), [
    (("?", "?"), S.WAITING, (), None),
    (("WAITING", "?"), S.WAITING, (), None),
    (("RUNNING", "?"), S.RUNNING, (), None),
    (("RUNNING", "RUNNING"), S.RUNNING, (), None),
    (("RUNNING", "UNKNOWN"), S.UNKNOWN, (), None),
    (("RUNNING", "SUCCEEDED"), S.RUNNING, (), None),
    (("SUCCEEDED", "RUNNING"), S.RUNNING, (), None),
    (("SUCCEEDED", "SUCCEEDED"), S.SUCCEEDED, (), None),
    (("EARLY_STOPPED time_limit", "SYS_CANCELED stopped"), S.EARLY_STOPPED, (), None),
    (("RUNNING", "FAILED exited", "RUNNING"), S.RUNNING, (0, 2), 1),
    (("RUNNING", "FAILED exited", "?"), S.RUNNING, (0, 2), 1),
    (("SYS_CANCELED stopped", "FAILED exited"), S.FAILED, (), 1),
    (("FAILED exited 5", "FAILED exited 4"), S.FAILED, (), 1),
    (("FAILED exited 4", "FAILED exited 5"), S.FAILED, (), 0),
    (("SYS_CANCELED stopped 3", "FAILED exited 9"), S.FAILED, (), 1),
    (("SYS_CANCELED stopped", "SYS_CANCELED stopped"), S.FAILED, (), 0),
    (("SUCCEEDED", "FAILED exited"), S.SUCCEEDED, (), None),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) and value and isinstance(value[0], str) else None)
def test_the_trial_is_what_its_ranks_make_of_it(states, status, stop, failed) -> None:
    trial = trial_of_ranks(ranks(*states), is_canceled=False)
    assert (trial.seen.status, trial.stop, trial.failed) == (status, stop, failed)


def test_the_rank_that_was_found_first_stays_the_one_that_failed() -> None:
    trial = trial_of_ranks(ranks("FAILED exited 1", "FAILED exited 9"), is_canceled=False, failed=1)
    assert trial.failed == 1
    assert trial.seen.message is not None
    assert trial.seen.message.arguments == {  # type: ignore[attr-defined]
        "rank": 1, "machine": "m1", "said": "said 1", "last_lines": "boom", "ended": "exited"}


def test_other_ranks_have_a_while_after_the_end_of_rank_0() -> None:
    states = ranks("SUCCEEDED", "RUNNING")
    assert trial_of_ranks(states, is_canceled=False, rank_0_ended_for=9.9).stop == ()
    assert trial_of_ranks(states, is_canceled=False, rank_0_ended_for=10.0).stop == (1,)


def test_a_trial_that_is_stopped_blames_no_rank_and_ends_with_the_last_one() -> None:
    going = trial_of_ranks(ranks("SYS_CANCELED stopped", "RUNNING"), is_canceled=True)
    assert (going.seen.status, going.stop, going.failed) == (S.RUNNING, (1,), None)
    over = trial_of_ranks(ranks("SYS_CANCELED stopped", "FAILED exited"), is_canceled=True)
    assert over.seen.status is S.SYS_CANCELED


@pytest.mark.parametrize("seen", [
    Observation(S.SUCCEEDED), Observation(S.FAILED, cause=Reason("node_failed", said="It failed.", platform="Slurm"))])
def test_what_the_platform_did_and_what_rank_0_achieved_stand(seen: Observation) -> None:
    assert with_failed_rank(seen, {"rank": 1, "machine": "m", "exit": {"reason": "exited", "exit_code": 1}}) == seen


@pytest.mark.parametrize(("name", "found"), [
    ("abc", ("abc", 0)), ("abc-node1", ("abc", 1)), ("abc-node12", ("abc", 12))])
def test_nodes_have_names_that_are_read_again(name: str, found: tuple[str, int]) -> None:
    assert job_and_rank(name) == found
    assert node_name(*found) == name

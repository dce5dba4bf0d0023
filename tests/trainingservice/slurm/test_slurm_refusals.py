"""What sbatch says when it takes no job decides what is done next; on what a real sbatch said."""

import pytest

from tests.trainingservice.slurm.recordings import recorded, refusals
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.polling.service import MustWait
from trainingservice.slurm.refusals import refusal
from trainingservice.submit_host.host import Finished, NotRun, Unanswered

#: The job may have been taken; the controller was not asked; there is no room; all others can never be taken.
KINDS = {"timeout": Unanswered, "away": NotRun, "munge": NotRun, "no_configuration": NotRun, "submit_limit": MustWait,
         "inactive": MustWait, "drain": MustWait}


def said(name: str, status: int = 1):
    return refusal(Finished(status, "", recorded(f"sbatch/{name}.txt")), "login.example")


@pytest.mark.parametrize("name", refusals())
def test_each_refusal_is_of_the_right_kind(name):
    assert type(said(name)) is KINDS.get(name, PermanentError)


def test_all_kinds_were_recorded():
    assert set(KINDS) < set(refusals())


@pytest.mark.parametrize(("name", "words"), [
    ("partition", "Invalid partition name specified"), ("memory", "Memory specification can not be satisfied"),
    ("option", "unrecognized option '--foo=x'"), ("account", "Invalid account or account/partition combination"),
    ("submit_limit", "AssocMaxSubmitJobLimit"),
])
def test_slurms_own_words_are_told_without_the_program_s_name(name, words):
    text = str(said(name))
    assert words in text
    assert "sbatch:" not in text
    assert "Try " not in text


def test_a_submission_whose_answer_was_lost_is_not_taken_for_refused():
    assert "looks for the job" in str(said("timeout"))
    killed = refusal(Finished(-9, "", ""), "login.example")
    assert isinstance(killed, Unanswered)
    silent = refusal(Finished(0, "Welcome!\n", ""), "login.example")
    assert isinstance(silent, Unanswered)


def test_a_shell_that_does_not_get_as_far_as_sbatch_is_tried_again():
    error = refusal(Finished(255, "", "This account is currently not available.\n"), "login.example")
    assert type(error) is TemporaryError
    assert "currently not available" in str(error)

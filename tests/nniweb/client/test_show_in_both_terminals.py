"""``experiments show`` on the server's machine says what the client says on another one."""

import io
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.utils import timezone

from nniweb.client.commands import run
from nniweb.experiments.access.accounts import make_token
from nniweb.experiments.models import Experiment, Proposal, Trial, TrialParameters, User
from nniweb.experiments.models.account import Scope


@pytest.fixture
def shown(live_server, admin: User, tmp_path: Path) -> Callable[[], list[str]]:
    """The lines of both terminals, which must be equal but for the address of the page."""
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(make_token(admin, admin, name="test", scope=Scope.ADMIN, expires_at=None)[0])

    def lines() -> list[str]:
        here, elsewhere = io.StringIO(), io.StringIO()
        call_command("experiments", "show", "abc", stdout=here)
        arguments = ["experiments", "show", "abc", "--server", live_server.url, "--token-file", str(file)]
        assert run(arguments, out=elsewhere, err=elsewhere) == 0
        said, told = (text.getvalue().splitlines()[:-1] for text in (here, elsewhere))
        assert said == told
        return said
    return lines


@pytest.fixture
def mice(transactional_db: None, make_experiment: Callable[..., Experiment]) -> Experiment:
    now = timezone.now()
    experiment = make_experiment(public_id="abc123abc123", name="mice", status="DONE")
    Experiment.objects.filter(pk=experiment.pk).update(ended_at=now, running_seconds=95,
                                                       created_at=now - timedelta(seconds=95))
    return experiment


def test_both_say_by_which_tuner_auto_proposes(shown: Callable[[], list[str]], mice: Experiment) -> None:
    Experiment.objects.update(tuner={"name": "Auto"}, tuner_choice={
        "tuner": "GP", "reason": {"code": "auto_model", "most": 150}})
    assert ("Auto proposes by GP. A model of all results finds good parameters with the fewest trials, up to 150 "
            "results.") in shown()


def test_both_say_the_mean_of_the_best_proposal_and_no_single_result(
        shown: Callable[[], list[str]], mice: Experiment) -> None:
    Experiment.objects.update(replicates={"n": 3, "racing": True})
    proposal = Proposal.objects.create(experiment=mice, first_sequence_id=0, state="complete", begun=3, wanted=3,
                                       value_count=3, mean=0.25, standard_error=0.01)
    for number, value in enumerate((0.24, 0.25, 0.26)):
        trial = Trial.objects.create(experiment=mice, proposal=proposal, sequence_id=number, status="SUCCEEDED",
                                     final_number=value, final_value=str(value), created_at=timezone.now())
        TrialParameters.objects.create(trial=trial, value={"x": 0.5})
    first = Trial.objects.get(sequence_id=0)
    lines = shown()
    assert f"Best proposal: that of trial 0 ({first.public_id}), 0.25 +- 0.01 (mean of 3)" in lines
    assert "  x = 0.5" in lines


def test_an_ended_experiment_ran_and_one_that_goes_on_runs(shown: Callable[[], list[str]], mice: Experiment) -> None:
    assert "Ran for 1 min 35 s, at most 2 trials at once" in shown()
    Experiment.objects.update(status="PAUSED", ended_at=None)
    assert "Running for 1 min 35 s, at most 2 trials at once" in shown()


def test_both_show_what_would_move_a_terminals_cursor_as_escapes(
        shown: Callable[[], list[str]], mice: Experiment) -> None:
    Experiment.objects.update(name="\x1b]52;c;cm0=\x07mice", message="\x9b2Jwaits", tuner={"name": "Random"})
    Trial.objects.create(experiment=mice, sequence_id=0, status="FAILED", message="exit \x1b[1A\rcode 1",
                         created_at=timezone.now())
    lines = shown()
    assert lines[0].startswith("\\x1b]52;c;cm0=\\x07mice (abc123abc123)")
    assert any(line.endswith("FAILED: exit \\x1b[1A\\rcode 1") for line in lines)
    assert all(line.isprintable() for line in lines)

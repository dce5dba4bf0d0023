"""Forecasts, budgets and changes to the code as agents have them: those of the server, in few words."""

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from nniweb.experiments.models import Experiment, Trial, User
from tests.nniweb.mcp_server.test_tools import CONFIG, ToolFailed, ask

__all__ = ["ask"]


@pytest.fixture
def budgeted(switched_on: None, admin: User, with_token: Callable[..., APIClient]) -> dict[str, Any]:
    """Ada may use two hours of trials a month."""
    answer = with_token(admin).post("/api/v1/budgets/", {"user": "ada", "period": "month", "wall_hours": 2})
    assert answer.status_code == 201, answer.content
    return dict(answer.json())


def test_a_launch_that_is_more_than_the_budget_has_left_says_so_before(ask: Callable[..., Any], budgeted: Any) -> None:
    tried = ask("launch", config={**CONFIG, "maxTrialDuration": "1h"}, files={"trial.py": ""})
    forecast = tried["forecast"]
    assert (forecast["trials"], forecast["basis"], forecast["expected"]["wall_hours"]) == (5, "max_trial_duration", 5)
    [line] = forecast["budgets"]
    assert (line["of"], line["limits"], line["exceeds"]) == ("user ada", {"wall_hours": 2}, ["wall_hours"])


def test_proposals_and_the_budget_itself_tell_what_is_left(ask: Callable[..., Any], budgeted: Any,
                                                           make_experiment: Callable[..., Experiment]) -> None:
    experiment = make_experiment(tuner={"name": "External"}, max_trial_duration=1800.0, trial_gpu_number=2)
    tried = ask("propose", experiment=experiment.public_id, proposals=[{"parameters": {"x": 0.5}}] * 4)
    forecast = tried["forecast"]
    assert (forecast["trial_hours"], forecast["gpu_hours"], forecast["basis"]) == (2, 4, "max_trial_duration")
    assert forecast["budgets"][0]["left"] == {"wall_hours": 2}
    [line] = ask("budget")["budgets"]
    assert (line["of"], line["period"], line["left"], line["used_up"]) == ("user ada", "month", {"wall_hours": 2}, [])


def test_a_proposal_may_change_the_code_and_equal_changes_have_one_name(ask: Callable[..., Any]) -> None:
    wish: dict[str, Any] = {"files": {"trial.py": "lr = 1\nprint(lr)\n", "old.py": "1\n"}, "key": "v", "dry_run": False}
    experiment = ask("launch", config={**CONFIG, "codeVariants": True}, **wish)["experiment"]
    patch = "--- a/trial.py\n+++ b/trial.py\n@@ -1,2 +1,2 @@\n-lr = 1\n+lr = 2\n print(lr)\n"
    variants = [{"patch": patch}, {"files": {"trial.py": "lr = 2\nprint(lr)\n"}}, {"files": {"old.py": None}}, None]
    proposals = [{"parameters": {"x": number / 10}, **({} if variant is None else {"variant": variant})}
                 for number, variant in enumerate(variants)]
    tried = ask("propose", experiment=experiment, proposals=proposals)
    names = [row["variant"] for row in tried["trials"]]
    assert (names[0] == names[1], names[3], len(set(names)), Trial.objects.count()) == (True, None, 3, 0)
    ask("propose", experiment=experiment, proposals=proposals, dry_run=False)
    table = ask("results", experiment=experiment, order="sequence_id", columns=["variant"])
    assert [row for [row] in table["rows"]] == names
    with pytest.raises(ToolFailed, match=r"proposals\[0\].variant.patch: .*hunk 1"):
        ask("propose", experiment=experiment, proposals=[{"parameters": {"x": 0.5}, "variant": {
            "patch": patch.replace("lr = 1", "lr = 9")}}])

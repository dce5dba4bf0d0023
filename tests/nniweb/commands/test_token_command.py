"""``manage.py token``."""

import io

import pytest
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from nniweb.experiments.models import ApiToken, Budget, Cluster, User


def test_a_token_is_printed_and_nothing_else(admin) -> None:
    out = io.StringIO()
    call_command("token", "ada", "--name", "laptop", stdout=out)
    secret = out.getvalue().removesuffix("\n")
    assert secret.startswith("nniweb_")
    assert "\n" not in secret
    assert ApiToken.objects.get().name == "laptop"
    assert APIClient(headers={"Authorization": f"Token {secret}"}).get("/api/v1/workers/").status_code == 200


def test_without_a_name_it_is_the_first_administrators(admin) -> None:
    call_command("token", stdout=io.StringIO())
    assert ApiToken.objects.get().user == admin


def test_an_unknown_user_gets_a_sentence_with_the_known_ones(admin) -> None:
    with pytest.raises(CommandError, match='no user named "adam".*ada') as caught:
        call_command("token", "adam")
    assert caught.value.returncode == 1


def test_it_makes_a_token_with_a_leash(admin: User) -> None:
    lab = Cluster.objects.create(name="lab", platform="local")
    call_command("token", "ada", "--role", "read", "--role", "launch", "--cluster", "lab", "--max-trials", "4",
                 "--budget", "gpu_hours=2.5", "--budget", "trials=9", "--each-month", stdout=io.StringIO())
    token = ApiToken.objects.get()
    budget = Budget.objects.get(token=token)
    assert (budget.period, float(budget.gpu_hours), budget.trials) == ("month", 2.5, 9)
    assert (token.roles, token.clusters, token.max_trials, token.scope, token.everything) == (
        ["read", "launch"], [lab.public_id], 4, "change", False)


@pytest.mark.parametrize(("options", "said"), [
    (("--role", "launch", "--cluster", "nowhere"), "--cluster: ada cannot use a cluster named \"nowhere\""),
    (("--max-trials", "4"), "--role: Limits need at least one role"),
    (("--role", "launch", "--max-trials", "0"), "--max-trials: must be from 1"),
    (("--role", "read", "--budget", "hours=1"), '--budget: There is no unit "hours"'),
    (("--role", "read", "--budget", "money=much"), '--budget: "much" is no number'),
    (("--role", "read", "--budget", "money=-1"), "--budget money: "),
    (("--budget", "money=1"), "--role: Limits need at least one role"),
    (("--role", "steer"), "--everything: Without the role launch"),
    (("--role", "read", "--scope", "read"), "--role takes the place of --scope")])
def test_a_wrong_leash_names_its_option(admin: User, options: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError) as caught:
        call_command("token", "ada", *options)
    assert said in str(caught.value)
    assert not ApiToken.objects.exists()

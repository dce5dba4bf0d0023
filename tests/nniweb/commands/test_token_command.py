"""``manage.py token``."""

import io

import pytest
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from nniweb.experiments.models import ApiToken


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

"""The page of one's account: password, tokens, groups."""

import html
import os
import re
import subprocess
import sys
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from nniweb.experiments.models import ApiToken, AuditEntry, Cluster
from nniweb.experiments.models.account import Scope


def test_everybody_sees_who_they_are_and_who_is_in_their_groups(browser, max_, vera) -> None:
    text = browser(vera).get("/account/").content.decode()
    assert "viewer: sees" in text
    assert "vision" in text
    assert "max, vera" in text
    assert Client().get("/account/").status_code == 302


def test_a_token_is_shown_once_and_may_do_what_was_chosen(browser, max_) -> None:
    client = browser(max_)
    answer = client.post("/account/", {"make-token": "1", "name": "ci", "scope": "change", "lives": "30"}, follow=True)
    [secret] = set(re.findall(r"nniweb_[\w-]+", answer.content.decode()))
    assert "no-store" in answer["Cache-Control"]
    token = ApiToken.objects.get()
    assert (token.name, token.scope) == ("ci", "change")
    assert timedelta(days=29) < token.expires_at - timezone.now() <= timedelta(days=30)
    assert secret not in client.get("/account/").content.decode()
    assert Client().get("/api/v1/account/", headers={"Authorization": f"Token {secret}"}).json()["username"] == "max"


def test_the_page_with_a_new_token_is_reloaded_without_making_another(browser, max_) -> None:
    client = browser(max_)
    made = client.post("/account/", {"make-token": "1", "name": "ci", "scope": "change", "lives": "30"})
    assert (made.status_code, made["Location"]) == (302, "/account/")
    kept = made.cookies["made-token"]
    assert (kept["httponly"], kept["samesite"], kept["path"], kept["max-age"]) == (True, "Strict", "/account/", 60)
    assert "nniweb_" in client.get("/account/").content.decode()
    assert "nniweb_" not in client.get("/account/").content.decode()
    assert ApiToken.objects.count() == 1


def test_a_new_token_is_shown_to_its_owner_alone(browser, max_, vera) -> None:
    """Of two people at one browser, the second one does not see the token of the first."""
    mine, theirs = browser(max_), browser(vera)
    made = mine.post("/account/", {"make-token": "1", "name": "ci", "scope": "change", "lives": "30"})
    theirs.cookies["made-token"] = made.cookies["made-token"].value
    assert "nniweb_" not in theirs.get("/account/").content.decode()
    theirs.cookies["made-token"] = "x:y:z"
    assert theirs.get("/account/").status_code == 200


def test_a_scope_beyond_the_role_is_not_offered_and_refused(browser, vera) -> None:
    client = browser(vera)
    assert 'value="change"' not in client.get("/account/").content.decode()
    answer = client.post("/account/", {"make-token": "1", "name": "ci", "scope": "change", "lives": "0"})
    assert answer.status_code == 400
    assert "may have the scope read" in answer.content.decode()
    assert not ApiToken.objects.exists()


def test_a_token_is_removed_by_its_owner_alone(browser, max_, vera) -> None:
    ApiToken.make(max_, "ci", Scope.READ)
    token = ApiToken.objects.get()
    assert browser(vera).post("/account/", {"remove-token": token.pk}).status_code == 404
    for no_number in ("x", "\u00b2", "\u0663", "-1", "", "9" * 19, "9" * 5000, "\x00"):
        assert browser(max_).post("/account/", {"remove-token": no_number}).status_code == 404
    assert browser(max_).post("/account/", {"remove-token": token.pk}).status_code == 302
    assert not ApiToken.objects.exists()


def test_a_password_is_changed_with_the_old_one_and_signs_out_elsewhere(browser, max_) -> None:
    here, elsewhere = browser(max_), browser(max_)
    form = {"old_password": "wrong", "new_password1": "one more pass phrase", "new_password2": "one more pass phrase"}
    refused = here.post("/account/password/", form)
    assert refused.status_code == 400
    assert "old password was entered incorrectly" in refused.content.decode()
    assert here.post("/account/password/", {**form, "old_password": "a long pass phrase"}).status_code == 302
    assert here.get("/account/").status_code == 200
    assert elsewhere.get("/account/").status_code == 302
    max_.refresh_from_db()
    assert max_.check_password("one more pass phrase")
    assert AuditEntry.objects.filter(action="password.change", who="max").count() == 1


def test_who_came_by_a_link_chooses_a_first_password(browser, vera) -> None:
    vera.set_unusable_password()
    vera.save()
    client = browser(vera)
    assert "Old password" not in client.get("/account/").content.decode()
    weak = client.post("/account/password/", {"new_password1": "vera", "new_password2": "vera"})
    assert weak.status_code == 400
    form = {"new_password1": "a first pass phrase", "new_password2": "a first pass phrase"}
    assert client.post("/account/password/", form).status_code == 302
    vera.refresh_from_db()
    assert vera.check_password("a first pass phrase")


@pytest.mark.django_db(transaction=True)
def test_the_first_lines_with_a_new_token_work_as_they_are_copied(live_server, browser, max_, make_experiment) -> None:
    """Run as they stand, each by its program, against this server."""
    make_experiment(owner=max_, name="of max")
    text = browser(max_).post("/account/", {"make-token": "1", "name": "ci", "scope": "change", "lives": "30"},
                              follow=True, headers={"Host": live_server.url.removeprefix("http://")}).content.decode()
    lines = {name: html.unescape(body)
             for name, body in re.findall(r'<pre id="first-(\w+)"[^>]*>(.*?)</pre>', text, re.S)}
    root = Path(__file__).resolve().parents[3]
    package = tomllib.loads((root / "pyproject.toml").read_text())["project"]["name"]
    assert lines["install"] == f"pip install {package}"
    assert len(lines["python"].splitlines()) == 3
    assert len(lines["curl"].splitlines()) == 1
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root), "no_proxy": "*"}
    for program in ([sys.executable, "-c", lines["python"]], ["bash", "-c", lines["curl"]]):
        done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, "of max" in done.stdout) == (0, True), done.stderr


def test_the_scope_at_first_lets_a_newcomer_launch(browser, admin, max_, vera) -> None:
    """An administrator who has nothing but this machine needs admin for it; with another cluster change is enough."""
    def at_first(person) -> str:
        return re.findall(r'<option value="(\w+)" selected>\w+:', browser(person).get("/account/").content.decode())[0]

    assert [at_first(person) for person in (admin, max_, vera)] == ["admin", "change", "read"]
    Cluster.objects.create(name="here", platform="local")
    assert at_first(admin) == "admin"
    Cluster.objects.create(name="lab", platform="remote")
    assert at_first(admin) == "change"


def test_administrators_are_told_of_the_right_that_other_tokens_need_until_they_have_it(browser, admin, max_) -> None:
    said, way = "cannot run trials on the machine of this server", f"/admin/experiments/user/{admin.pk}/change/"
    text = browser(admin).get("/account/").content.decode()
    assert said in text
    assert f'<a href="{way}">May run trials on the server as</a>' in text
    assert said not in browser(max_).get("/account/").content.decode()
    assert "May run trials on the server as" in browser(admin).get(way).content.decode()
    admin.local_users = "*"
    admin.save()
    text = browser(admin).get("/account/").content.decode()
    assert said not in text
    assert '<option value="change" selected>' in text

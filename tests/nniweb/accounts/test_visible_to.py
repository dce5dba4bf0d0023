"""Who sees what is launched: what the person said, on the page, over REST and in a terminal; else a default."""

import io
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command

from nniweb.client import Client as NniwebClient
from nniweb.client.commands import run
from nniweb.experiments.access.accounts import make_token
from nniweb.experiments.models import AuditEntry, Experiment, Quota, User
from nniweb.experiments.models.account import Scope

FIELDS = {"search_space": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trial_command": "true",
          "trial_concurrency": 1, "tuner": {"name": "Random"}, "training_service": {"platform": "local"}}
CONFIG = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: "true"
trialConcurrency: 1
tuner: {name: Random}
trainingService: {platform: local}
"""


@pytest.fixture
def member(max_: User, settings, tmp_path: Path) -> User:
    """In one group, "vision"; may run trials here and name folders."""
    settings.DATA_FOLDER = tmp_path / "data"
    settings.DATA_FOLDER.mkdir()
    max_.names_folders = True
    max_.local_users = "*"
    max_.save()
    return max_


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "config.yml").write_text(CONFIG)
    return folder


@pytest.fixture
def speech(db: None) -> Group:
    return Group.objects.create(name="speech")


@pytest.mark.parametrize(("said", "group"), [({}, "vision"), ({"group": None}, None), ({"group": ""}, None),
                                             ({"group": "vision"}, "vision"), ({"group": "speech"}, "speech")])
def test_over_rest_the_launch_says_who_sees_it_and_a_check_says_it_before(
        with_token, member, code, speech, said, group) -> None:
    """By default one's only group; whoever is in two chooses."""
    if said.get("group") == "speech":
        member.groups.add(speech)
    body = {"config": CONFIG, "base_directory": str(code), **said}
    api = with_token(member)
    assert api.post("/api/v1/experiments/check/", body).json()["group"] == group
    answer = api.post("/api/v1/experiments/", body)
    assert (answer.status_code, answer.json().get("group")) == (201, group), answer.content
    as_fields = api.post("/api/v1/experiments/", {**FIELDS, "trial_code_directory": str(code), **said})
    assert (as_fields.status_code, as_fields.json().get("group")) == (201, group), as_fields.content
    assert {entry.details["group"] for entry in AuditEntry.objects.filter(action="experiment.launch")} == {group}


@pytest.mark.parametrize("name", ["speech", "no such group", 3])
def test_a_group_that_is_not_ones_own_is_refused_at_its_field_and_nothing_is_launched(
        with_token, member, code, speech, name) -> None:
    answer = with_token(member).post("/api/v1/experiments/", {
        "config": CONFIG, "base_directory": str(code), "group": name})
    assert (answer.status_code, [error["field"] for error in answer.json()["errors"]]) == (400, ["group"])
    assert not Experiment.objects.exists()


def test_a_quota_of_a_group_holds_for_what_is_shared_with_it_only(with_token, member, vision, code) -> None:
    Quota.objects.create(group=vision, max_experiments=0)
    api, body = with_token(member), {"config": CONFIG, "base_directory": str(code)}
    assert api.post("/api/v1/experiments/", body).status_code == 400
    assert api.post("/api/v1/experiments/", {**body, "group": None}).status_code == 201


def test_the_page_says_the_default_and_launches_as_it_was_chosen(browser, member, vision, code, speech) -> None:
    page = browser(member)
    text = page.get("/new/").content.decode()
    assert '<option value="vision" selected>' in text
    assert "because it is your only group" in text
    assert "speech" not in text
    form = {"config": CONFIG, "base_directory": str(code), "act": "launch"}
    assert page.post("/new/", {**form, "group": ""}).status_code == 302
    assert page.post("/new/", {**form, "group": "vision"}).status_code == 302
    assert [one.group for one in Experiment.objects.order_by("pk")] == [None, vision]
    checked = page.post("/new/", {**form, "act": "check", "group": ""}).content.decode()
    assert "<dt>Visible to</dt><dd>only you and administrators</dd>" in checked
    assert "<option value=\"vision\" selected>" not in checked, "what was chosen stays"
    member.groups.add(speech)
    assert "selected>the group" not in page.get("/new/").content.decode(), "of two groups none is chosen for a person"


def test_a_clone_is_shared_as_its_original_was(browser, member, vision, make_experiment) -> None:
    shared, own = make_experiment(owner=member, group=vision), make_experiment(owner=member)
    chosen = '<option value="vision" selected>'
    assert chosen in browser(member).get(f"/new/?clone={shared.public_id}").content.decode()
    assert chosen not in browser(member).get(f"/new/?clone={own.public_id}").content.decode()


@pytest.mark.parametrize(("options", "group", "line"), [
    ([], "vision", "Visible to the group vision"), (["--private"], None, "Visible to you and administrators."),
    (["--group", "vision"], "vision", "Visible to the group vision")])
def test_the_command_at_the_server_says_who_sees_it(member, code, options, group, line) -> None:
    out = io.StringIO()
    call_command("launch", str(code / "config.yml"), "--user", "max", *options, stdout=out, stderr=io.StringIO())
    experiment = Experiment.objects.get()
    assert (experiment.group.name if experiment.group else None) == group
    assert line in out.getvalue()


def test_the_command_refuses_a_group_that_is_not_the_owners(member, code, speech) -> None:
    with pytest.raises(CommandError, match='You are not in a group named "speech"'):
        call_command("launch", str(code / "config.yml"), "--user", "max", "--group", "speech")
    assert not Experiment.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_client_and_its_command_say_who_sees_it(live_server, member, code, tmp_path) -> None:
    token = make_token(member, member, name="laptop", scope=Scope.CHANGE, expires_at=None)[0]
    client = NniwebClient(live_server.url, token)
    for said, group in ((None, "vision"), ("", None), ("vision", "vision")):
        assert client.check(code / "config.yml", group=said)["group"] == group
        assert client.launch(code / "config.yml", group=said).document["group"] == group
    file, out = tmp_path / "token", io.StringIO()
    file.touch(mode=0o600)
    file.write_text(token)
    assert run(["launch", str(code / "config.yml"), "--private", "--server", client.server, "--token-file", str(file)],
               out=out, err=out) == 0
    assert "Visible to you and administrators." in out.getvalue()
    assert Experiment.objects.order_by("-pk").first().group is None

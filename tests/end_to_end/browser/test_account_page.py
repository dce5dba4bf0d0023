"""One's account and sharing, in a browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
import requests
from playwright.sync_api import expect

from tests.end_to_end.browser.led_trials import LedTrials
from tests.end_to_end.running_server import RunningServer

pytestmark = pytest.mark.slow


def test_a_token_is_made_used_and_removed_and_a_first_password_chosen(server: RunningServer, open_page: Any) -> None:
    person = server.post("users/", {"username": "nora", "role": "member"})["id"]
    link = server.post(f"users/{person}/actions/sign-in-link/")["url"]
    page = open_page(server, link.removeprefix(server.url), signed_in=False)
    page.get_by_role("button", name="Sign in as nora").click()
    page.wait_for_url(f"{server.url}/")
    page.goto("/account/")
    page.get_by_label("What it is for").fill("notebook")
    page.get_by_label("Scope").select_option("read")
    page.get_by_role("button", name="Create token").click()
    secret = page.get_by_label("The new token").input_value()
    own = {"headers": {"Authorization": f"Token {secret}"}, "timeout": 30, "proxies": {"http": ""}}
    assert requests.get(f"{server.url}/api/v1/account/", **own).json()["scope"] == "read"
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name=re.compile("Copied|Selected"))).to_be_visible()
    page.goto("/account/")
    expect(page.get_by_text(secret)).to_have_count(0)
    page.get_by_text("Leash: for a program that searches on its own").click()
    page.get_by_role("checkbox", name="read: looks").check()
    expect(page.get_by_label("Scope")).to_have_value("leash")
    page.get_by_role("button", name="Remove the token notebook").click()
    page.get_by_role("button", name="Remove it").click()
    expect(page.get_by_role("alert").filter(has_text="was removed")).to_be_visible()
    assert requests.get(f"{server.url}/api/v1/account/", **own).status_code == 401
    page.get_by_label("New password", exact=True).fill("a first pass phrase")
    page.get_by_label("New password confirmation").fill("a first pass phrase")
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("alert").filter(has_text="The password was changed")).to_be_visible()
    stranger = open_page(server, "/sign-in/", signed_in=False)
    stranger.get_by_label("User name").fill("nora")
    stranger.get_by_label("Password").fill("a first pass phrase")
    stranger.get_by_role("button", name="Sign in").click()
    expect(stranger.get_by_role("heading", name="Experiments", exact=True)).to_be_visible()


def test_the_token_that_an_administrator_makes_first_launches_on_the_machine_of_the_server(
        open_page: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """On a new installation this machine is the only place for trials. Nothing but a name is filled in."""
    folder = tmp_path_factory.mktemp("code")
    (folder / "trial.py").write_text("import nni\nnni.report_final_result(nni.get_next_parameter()['x'])\n")
    running = RunningServer(tmp_path_factory.mktemp("server") / "data")
    try:
        page = open_page(running.start(), "/account/")
        page.get_by_label("What it is for").fill("first steps")
        page.get_by_role("button", name="Create token").click()
        secret = page.get_by_label("The new token").input_value()
        own = {"headers": {"Authorization": f"Token {secret}"}, "timeout": 120, "proxies": {"http": ""}}
        answer = requests.post(f"{running.url}/api/v1/experiments/", **own, json={
            "base_directory": str(folder), "config": {
                "experimentName": "first", "trialCommand": "python3 trial.py", "trialCodeDirectory": ".",
                "trialConcurrency": 1, "maxTrialNumber": 1, "tuner": {"name": "Random"},
                "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
                "trainingService": {"platform": "local"}}})
        assert answer.status_code == 201, answer.text
        experiment = running.wait_for_experiment(answer.json()["id"])
        assert (experiment["status"], experiment["progress"]["ended"]) == ("DONE", 1)
    finally:
        running.close()


def test_an_experiment_is_shared_and_handed_over_on_its_page(server: RunningServer, open_page: Any, tmp_path: Any
                                                             ) -> None:
    server.post("users/", {"username": "cora", "role": "member"})
    server.post("groups/", {"name": "vision", "members": ["cora"]})
    trials = LedTrials(server, tmp_path, trialConcurrency=1)
    page = open_page(server, f"/experiments/{trials.experiment}/")
    page.get_by_role("button", name="Share…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Visible to").select_option("vision")
    dialog.get_by_label("It belongs to").select_option("cora")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("cora and the group vision")).to_be_visible()
    shown = server.get(f"experiments/{trials.experiment}/")
    assert (shown["owner"], shown["group"]) == ("cora", "vision")


def test_a_launch_is_visible_to_whom_its_person_chose_on_the_page(server: RunningServer, open_page: Any) -> None:
    server.post("groups/", {"name": "speech", "members": ["admin"]})
    page = open_page(server, "/new/?template=sketch")
    choice = page.get_by_label("Visible to")
    expect(choice).to_have_value("speech")  # the only one, which the page says
    expect(page.get_by_text("because it is your only group")).to_be_visible()
    choice.select_option("only me and administrators")
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(re.compile("/experiments/[a-z0-9]{12}/$"))
    assert server.get(f"experiments/{page.url.split('/')[-2]}/")["group"] is None

"""Clusters are set up and changed in a form: without JSON, tested before they are saved, for every platform."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.clicks import clicks, count_clicks
from tests.end_to_end.browser.conftest import PATIENCE
from tests.end_to_end.browser.test_every_page import AXE, serious_violations
from tests.end_to_end.running_server import SCRIPTED_PLATFORMS, RunningServer
from tests.fakes.ssh_machine import SshMachine

expect.set_options(timeout=PATIENCE)
SECRETS = ("sesame", "pw-a", "pw-b", "open please")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    platforms = "tests.nniweb.api.clusters"
    running = RunningServer(tmp_path_factory.mktemp("server") / "data", {"NNIWEB_EXTRA_PLATFORMS": (
        f"{SCRIPTED_PLATFORMS},vault={platforms}.vault_platform:VaultTrainingService,"
        f"bare={platforms}.bare_platform:BareTrainingService")})
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshMachine]:
    made = SshMachine(tmp_path_factory.mktemp("machine"))
    try:
        yield made.start()
    finally:
        made.crash()


def field(page: Any, label: str, machine: int = 1) -> Any:
    """A field of the form; of the platform remote, of its n-th machine."""
    return page.get_by_label(label, exact=True).nth(machine - 1)


def new_vault(server: RunningServer, name: str) -> dict[str, Any]:
    """A third party's cluster with secrets of all kinds."""
    made: dict[str, Any] = server.post("clusters/", {"name": name, "platform": "vault", "enabled": False, "settings": {
        "address": "there", "token": "sesame",
        "doors": [{"host": "a", "password": "pw-a"}, {"host": "b", "password": "pw-b"}]}})
    return made


def set_key_file(server: RunningServer, made: dict[str, Any]) -> None:
    answer = server.request("PUT", f"clusters/{made['id']}/metadata/key_file/", json={"value": "open please"})
    assert answer.ok, answer.text


def open_settings(open_page: Any, server: RunningServer, made: dict[str, Any], **how: Any) -> Any:
    page = open_page(server, f"/clusters/{made['id']}/edit/", **how)
    expect(page.locator("#cluster-form[data-state=ready]")).to_be_visible()
    return page


def test_machines_over_ssh_are_set_up_and_tested_with_six_clicks_and_no_json(server, open_page, machine) -> None:
    page = open_page(server, "/")
    count_clicks(page)
    page.get_by_role("link", name="Clusters", exact=True).click()
    page.get_by_role("link", name="Add cluster").click()
    field(page, "Name").fill("lab")
    field(page, "Platform").select_option("remote")
    for label, value in (("Host", "127.0.0.1"), ("Port", str(machine.port)), ("User", machine.user),
                         ("SSH key file", str(machine.key))):
        field(page, label).fill(value)
    page.get_by_role("button", name="Test cluster").click()
    expect(page.locator("#test-state")).to_have_text(re.compile(r"All \d+ checks are good"))
    page.get_by_role("button", name="Add cluster").click()
    page.wait_for_url(re.compile(r"/clusters/[a-z0-9]{12}/$"))
    expect(page.locator("#rehearsed")).to_contain_text("An empty test trial succeeded.")
    assert clicks(page) <= 6
    [made] = [each for each in server.get_all("clusters/") if each["name"] == "lab"]
    [stored] = made["settings"]["machineList"]
    assert (stored["host"], stored["port"], stored["sshKeyFile"]) == ("127.0.0.1", machine.port, str(machine.key))
    assert all(finding["ok"] for finding in made["rehearsal"]["findings"])


@pytest.mark.slow
def test_what_a_test_finds_is_said_at_the_field_and_in_the_list(server, open_page, machine) -> None:
    page = open_page(server, "/clusters/new/")
    page.allow("status of 400")
    field(page, "Platform").select_option("remote")
    field(page, "Host").fill("127.0.0.1")
    page.get_by_role("button", name="Test cluster").click()
    expect(page.locator("#said")).to_contain_text("One field is wrong; nothing was tested.")
    expect(field(page, "User")).to_have_attribute("aria-invalid", "true")
    expect(field(page, "User")).to_be_focused()
    field(page, "User").fill("nobody-here")
    field(page, "Port").fill(str(machine.port))
    field(page, "SSH key file").fill(str(machine.key))
    page.get_by_role("button", name="Add machine").click()
    expect(field(page, "Host", 2)).to_be_focused()
    field(page, "Host", 2).fill("127.0.0.1")
    field(page, "Port", 2).fill("1")
    field(page, "User", 2).fill(machine.user)
    page.get_by_role("button", name="Test cluster").click()
    expect(page.locator("#test-state")).to_contain_text("found something wrong")
    expect(page.locator("#findings")).to_have_attribute("aria-live", "polite")
    expect(page.locator("#findings li")).not_to_have_count(0)
    # both are 127.0.0.1, so that the list of them is the place
    expect(page.locator('[data-path="machineList"] > .saying')).to_contain_text("refuses")
    field(page, "Host", 2).fill("localhost")
    page.get_by_role("button", name="Test cluster").click()
    expect(page.locator('[data-path="machineList[0].user"] .said')).to_contain_text("refuses the log-in of user nobody")
    expect(page.locator('[data-path="machineList[1].host"] .said')).to_be_visible()
    refused = page.locator("#findings li", has_text="of user nobody-here").last
    refused.get_by_role("button", name="Go to the field").click()
    expect(field(page, "User")).to_be_focused()
    field(page, "User").fill(machine.user)
    page.get_by_role("button", name="Remove Machine 2").click()
    expect(page.locator("#test-state")).to_have_text("The settings were changed after this test.")
    page.get_by_role("button", name="Test cluster").click()
    expect(page.locator("#test-state")).to_have_text(re.compile(r"All \d+ checks are good"))
    expect(page.locator("#findings li")).to_have_count(0)
    expect(page.locator("#good-count")).to_have_text(re.compile(r"\d+ good checks"))
    expect(page.locator(".said")).to_have_count(0)


@pytest.mark.slow
def test_secrets_are_shown_as_set_replaced_and_removed_and_never_in_the_page(server, open_page) -> None:
    made = new_vault(server, "vault of secrets")
    set_key_file(server, made)
    answers: list[str] = []
    page = open_page(server, "/clusters/")
    page.page.on("response", lambda answer: answers.append(answer.text())
                 if "json" in (answer.headers.get("content-type") or "") else None)
    page.goto(f"/clusters/{made['id']}/edit/")
    expect(page.locator("#cluster-form[data-state=ready]")).to_be_visible()
    expect(page.locator("#settings-fields .is-set")).to_have_count(3)
    whole = page.content() + "".join(answers) + page.evaluate(
        "[...document.querySelectorAll('input, textarea')].map((each) => each.value).join(' ')")
    assert not [secret for secret in SECRETS if secret in whole]
    token = page.locator('[data-path="token"]')
    token.get_by_role("button", name="Replace").click()
    expect(field(page, "Token")).to_be_focused()
    field(page, "Token").fill("simsim")
    token.get_by_role("button", name="Keep").click()
    expect(token).to_contain_text("set")
    token.get_by_role("button", name="Remove").click()
    expect(token).to_contain_text("is removed when you save")
    door = page.locator('[data-path="doors[1].password"]')
    door.get_by_role("button", name="Replace").click()
    door.locator("input").fill("new for b")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url(f"**/clusters/{made['id']}/")
    after = server.get(f"clusters/{made['id']}/")
    assert after["secrets_set"] == ["doors[0].password", "doors[1].password"]
    assert "new for b" not in json.dumps(after)


@pytest.mark.slow
def test_a_changed_address_asks_for_the_secret_and_other_machines_keep_theirs(server, open_page) -> None:
    made = new_vault(server, "vault that moves")
    page = open_settings(open_page, server, made)
    page.allow("status of 400")
    field(page, "Address").fill("elsewhere")
    page.get_by_role("button", name="Save", exact=True).click()
    token = page.locator('[data-path="token"]')
    expect(token.locator(".said")).to_contain_text("was given for another address")
    assert server.get(f"clusters/{made['id']}/")["settings"]["address"] == "there"
    field(page, "Address").fill("there")
    field(page, "Host", 2).fill("c")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator('[data-path="doors[1].password"] .said')).to_contain_text("was given for another host")
    page.get_by_role("button", name="Remove Door 1").click()
    door = page.locator('[data-path="doors[0].password"]')
    expect(door).to_contain_text("set")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(door.locator(".said")).to_contain_text("was given for another host")
    assert len(server.get(f"clusters/{made['id']}/")["settings"]["doors"]) == 2, "nothing was saved"
    field(page, "Host").fill("b")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url(f"**/clusters/{made['id']}/")
    after = server.get(f"clusters/{made['id']}/")
    assert (after["settings"]["doors"], after["secrets_set"]) == (
        [{"host": "b", "port": 22}], ["doors[0].password", "token"])


@pytest.mark.slow
def test_what_is_wrong_with_several_fields_together_is_said(server, open_page) -> None:
    page = open_page(server, "/clusters/new/")
    page.allow("status of 400")
    field(page, "Name").fill("together")
    field(page, "Platform").select_option("openpai")
    field(page, "Host").fill("127.0.0.1")
    field(page, "Username").fill("me")
    page.get_by_role("button", name="Add cluster").click()
    expect(page.locator("#said")).to_contain_text("Settings: token is required; copy a token from your profile page")
    field(page, "Platform").select_option("remote")
    page.get_by_role("button", name="Add machine").click()
    for machine in (1, 2):
        field(page, "Host", machine).fill("ada")
        field(page, "User", machine).fill("me")
    page.get_by_role("button", name="Add cluster").click()
    expect(page.locator('[data-path="machineList"] .said')).to_contain_text("names the machine me@ada:22 twice")


@pytest.mark.slow
def test_metadata_are_rows_that_are_added_checked_and_removed(server, open_page) -> None:
    made = new_vault(server, "vault with metadata")
    set_key_file(server, made)
    page = open_settings(open_page, server, made)
    page.allow("status of 400")
    expect(page.locator('tr[data-key="key_file"]')).to_contain_text("set")
    page.get_by_label("Metadata key to add").select_option("note")
    page.get_by_role("button", name="Add metadata").click()
    note = page.get_by_label("Value of note")
    expect(note).to_be_focused()
    note.fill("wrong")
    page.get_by_role("button", name="Remove key_file").click()
    field(page, "Trials at a time").fill("3")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator('tr[data-key="note"] .said')).to_contain_text("give the right one")
    now = server.get(f"clusters/{made['id']}/")
    assert (now["max_trials"], now["metadata_set"]) == (None, ["key_file", "vault_config"]), "nothing was saved"
    note.fill("hello")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url(f"**/clusters/{made['id']}/")
    now = server.get(f"clusters/{made['id']}/")
    assert (now["max_trials"], now["metadata_set"]) == (3, ["note", "vault_config"])
    page = open_settings(open_page, server, made)
    page.allow("status of 400")
    page.get_by_text("The settings in NNI's words").click()
    page.get_by_label("Value of vault_config").fill('{"address": "there", "doors": []}')
    field(page, "Host").fill("z")
    page.get_by_role("button", name="Save", exact=True).click()
    door = page.locator('[data-path="doors[0].password"]')
    expect(door.locator(".said")).to_be_visible()
    door.get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator('tr[data-key="vault_config"] .said')).to_contain_text("not both at once")


@pytest.mark.slow
def test_a_platform_that_declares_nothing_has_a_box_for_json_that_says_why(server, open_page) -> None:
    page = open_page(server, "/clusters/new/")
    page.allow("status of 400")
    field(page, "Name").fill("bare one")
    field(page, "Platform").select_option("bare")
    expect(page.locator("#settings-note")).to_contain_text("The platform bare does not declare its settings")
    box = page.get_by_label("Settings as JSON")
    box.fill("{colour")
    page.get_by_role("button", name="Add cluster").click()
    expect(page.locator("#said")).to_contain_text("The settings are not JSON.")
    box.fill('{"colour": "red"}')
    page.get_by_role("button", name="Add cluster").click()
    expect(page.locator("#settings-bare")).to_contain_text("colour: is not a known field here")
    box.fill("{}")
    page.get_by_role("button", name="Add cluster").click()
    page.wait_for_url(re.compile(r"/clusters/[a-z0-9]{12}/$"))
    page.goto("/clusters/new/")
    field(page, "Platform").select_option("local")
    expect(page.locator("#settings-note")).to_have_text("The platform local needs no settings.")
    expect(box).to_be_hidden()


@pytest.mark.slow
def test_each_platform_has_a_form_and_a_name_that_is_taken_is_refused_at_its_field(server, open_page) -> None:
    made = new_vault(server, "vault of that name")
    page = open_page(server, "/clusters/new/")
    page.allow("status of 400")
    choice = field(page, "Platform")
    for name in choice.locator("option").all_inner_texts()[1:]:
        choice.select_option(name)
        expect(page.locator("#settings-note")).not_to_have_text(re.compile("Loading|Choose"))
        page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=1440)
    choice.select_option("vault")
    field(page, "Address").fill("x")
    field(page, "Name").fill(made["name"])
    page.get_by_role("button", name="Add cluster").click()
    expect(field(page, "Name")).to_have_attribute("aria-invalid", "true")
    field(page, "Name").fill("another vault")
    page.get_by_label("Who may use it").select_option("private")
    field(page, "Owner").fill("nobody")
    page.get_by_role("button", name="Add cluster").click()
    expect(field(page, "Owner")).to_have_attribute("aria-invalid", "true")
    field(page, "Owner").fill("admin")
    page.get_by_role("button", name="Add cluster").click()
    page.wait_for_url(re.compile(r"/clusters/[a-z0-9]{12}/$"))
    [stored] = [each for each in server.get_all("clusters/") if each["name"] == "another vault"]
    assert (stored["owner"], stored["is_private"]) == ("admin", True)


@pytest.mark.slow
def test_the_admin_has_the_same_form(server, open_page) -> None:
    made = new_vault(server, "vault in the admin")
    page = open_page(server, "/admin/experiments/cluster/")
    page.allow("status of 400")
    page.get_by_role("link", name="vault in the admin").click()
    expect(page.locator("#cluster-form[data-state=ready]")).to_be_visible()
    field(page, "Address").fill("elsewhere")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator('[data-path="token"] .said')).to_contain_text("was given for another address")
    page.locator('[data-path="token"]').get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/admin/experiments/cluster/")
    assert server.get(f"clusters/{made['id']}/")["secrets_set"] == ["doors[0].password", "doors[1].password"]
    page.goto(f"/clusters/{made['id']}/edit/")
    expect(page.locator("#cluster-form[data-state=ready]")).to_be_visible()
    page.get_by_role("button", name="Delete …").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete cluster").click()
    page.wait_for_url("**/clusters/")
    assert made["id"] not in [each["id"] for each in server.get_all("clusters/")]


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_the_form_fits_and_can_be_used_by_everybody(server, open_page, tmp_path: Path, width: int) -> None:
    made = new_vault(server, f"vault of {width}")
    set_key_file(server, made)
    page = open_settings(open_page, server, made, width=width)
    page.locator('[data-path="token"]').get_by_role("button", name="Remove").click()
    page.get_by_label("Metadata key to add").select_option("note")
    page.get_by_role("button", name="Add metadata").click()
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    page.goto("/usage/")
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    page.goto("/clusters/new/")
    field(page, "Platform").select_option("remote")
    page.get_by_role("button", name="Add shared storage").click()
    page.get_by_text(re.compile(r"^More fields")).first.click()
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    page.evaluate(AXE.read_text())
    assert not serious_violations(page)
    page.emulate_media(color_scheme="dark")
    assert not serious_violations(page, runOnly=["color-contrast"])


@pytest.mark.slow
def test_the_owner_of_a_private_cluster_renames_and_limits_it(server, open_page) -> None:
    person = server.post("users/", {"username": "mia", "role": "member"})["id"]
    link = server.post(f"users/{person}/actions/sign-in-link/")["url"]
    made = server.post("clusters/", {"name": "mias", "platform": "local", "owner": "mia", "is_private": True})
    page = open_page(server, link, signed_in=False)
    page.allow("status of 400")
    page.get_by_role("button", name="Sign in as").click()
    page.wait_for_url(f"{server.url}/**")
    page.goto(f"/clusters/{made['id']}/edit/")
    expect(page.locator("#cluster-form[data-state=ready]")).to_be_visible()
    field(page, "Name").fill("a/b")
    field(page, "Trials at a time").fill("4")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(field(page, "Name")).to_have_attribute("aria-invalid", "true")
    field(page, "Name").fill("mine")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url(f"**/clusters/{made['id']}/")
    now = server.get(f"clusters/{made['id']}/")
    assert (now["name"], now["max_trials"], now["is_private"], now["owner"]) == ("mine", 4, True, "mia")

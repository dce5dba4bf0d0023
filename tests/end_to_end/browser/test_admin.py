"""The admin in a browser: under the same strict policy as all pages, so every script and style must be its own."""

import re

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.conftest import PATIENCE
from tests.end_to_end.running_server import ROOT

expect.set_options(timeout=PATIENCE)


@pytest.fixture
def experiment(server) -> str:
    """One that has ended, so that every list has a row."""
    folder = ROOT / "examples" / "quadratic"
    config = (folder / "config.yml").read_text().replace("maxTrialNumber: 200", "maxTrialNumber: 1")
    experiment = server.launch(config, folder)
    server.wait_for_experiment(experiment)
    return experiment


@pytest.mark.parametrize("path", ["", *(
    pytest.param(path, marks=pytest.mark.slow) for path in (
        "experiments/cluster/add/", "experiments/user/add/", "experiments/cluster/", "experiments/experiment/",
        "experiments/trial/", "experiments/user/", "experiments/user/1/change/", "experiments/user/1/password/",
        "auth/group/add/", "experiments/apitoken/add/", "experiments/worker/"))])
def test_its_pages_work_under_the_strict_policy(server, open_page, experiment, path) -> None:
    page = open_page(server, f"/admin/{path}")
    expect(page.locator("#cluster-form" if path == "experiments/cluster/add/" else "#content")).to_be_visible()


@pytest.mark.slow
def test_a_cluster_is_tested_and_found_on_its_own_page(server, open_page, experiment) -> None:
    page = open_page(server, "/")
    page.get_by_role("link", name="Admin", exact=True).click()
    page.locator("#content").get_by_role("link", name="Clusters", exact=True).first.click()
    page.locator("input.action-select").first.check()
    page.locator("select[name=action]").select_option("rehearse")
    page.get_by_role("button", name=re.compile("Go|Run")).click()
    finding = page.locator(".messagelist .success", has_text="An empty test trial succeeded")
    expect(finding).to_be_visible()
    page.locator("#result_list th.field-name a").first.click()
    page.get_by_role("link", name="View on site").click()
    page.wait_for_url("**/clusters/*/")


@pytest.mark.slow
def test_a_token_for_a_program_is_shown_once(server, open_page) -> None:
    page = open_page(server, "/admin/experiments/apitoken/add/")
    page.locator(".field-user .select2-selection").click()
    page.locator(".select2-results__option", has_text="admin").click()
    page.get_by_label("Name").fill("notebook")
    page.get_by_role("button", name="Save", exact=True).click()
    shown = page.locator(".messagelist", has_text="copy it now")
    expect(shown).to_be_visible()
    secret = re.search(r"nniweb_\S+", shown.inner_text())
    assert secret is not None
    page.get_by_role("link", name="notebook").first.click()
    expect(page.locator("#content")).to_contain_text("Change api token")
    assert secret.group(0) not in page.content()

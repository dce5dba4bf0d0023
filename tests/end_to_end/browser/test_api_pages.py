"""The API's page, in a browser, under the same strict policy as all pages."""

import pytest
from playwright.sync_api import expect

from tests.end_to_end.browser.conftest import PATIENCE

expect.set_options(timeout=PATIENCE)


@pytest.mark.slow
def test_the_interface_is_described_and_tried_out(server, open_page) -> None:
    page = open_page(server)
    page.get_by_role("link", name="API", exact=True).click()
    launch = page.locator("#operations-experiments-experiments_create")
    expect(launch).to_contain_text("Launch an experiment")
    workers = page.locator("#operations-workers-workers_list")
    workers.locator(".opblock-summary-control").click()
    workers.get_by_role("button", name="Try it out").click()
    workers.get_by_role("button", name="Execute").click()
    expect(workers.locator(".live-responses-table")).to_contain_text('"alive": true')


@pytest.mark.slow
def test_a_call_that_changes_something_has_the_token_against_forged_requests(server, open_page) -> None:
    page = open_page(server, "/api/docs/")
    page.allow(r"status of 400")  # an empty launch is refused, and by the form, not for want of a token
    create = page.locator("#operations-experiments-experiments_check")
    create.locator(".opblock-summary-control").click()
    create.get_by_role("button", name="Try it out").click()
    create.locator("textarea").fill("{}")
    create.get_by_role("button", name="Execute").click()
    expect(create.locator(".live-responses-table .response-col_status").last).to_contain_text("400")


@pytest.mark.slow
def test_the_interface_is_described_for_reading_with_nothing_from_elsewhere(server, open_page) -> None:
    page = open_page(server, "/api/docs/")  # what is fetched from elsewhere, or forbidden by the policy, fails the test
    page.get_by_role("link", name="Read it (Redoc)").click()
    page.wait_for_url("**/api/docs/redoc/")
    reference = page.locator("#reference")
    expect(reference.get_by_role("heading", name="Launch an experiment")).to_have_count(1)
    reference.get_by_role("menuitem", name="experiments").first.click()
    expect(reference.get_by_role("menuitem", name="Launch an experiment")).to_be_visible()
    assert "unsafe" not in page.request.get(page.url).headers["content-security-policy"]


@pytest.mark.slow
def test_the_policy_has_no_exception_there(server, open_page) -> None:
    page = open_page(server, "/api/docs/")
    policies = [page.request.get(f"{server.url}{path}").headers["content-security-policy"]
                for path in ("/api/docs/", "/admin/", "/")]
    assert len(set(policies)) == 1
    assert "unsafe" not in policies[0]

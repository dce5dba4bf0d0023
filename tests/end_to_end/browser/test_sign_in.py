"""Signing in with user name and password, in a browser. By the printed link all other tests of pages come in."""

import re

from playwright.sync_api import expect

from tests.end_to_end.browser.conftest import PATIENCE

expect.set_options(timeout=PATIENCE)
NEW_PERSON = """
from nniweb.experiments.models import User
User.objects.create_user("grace", password="nanosecond-wire", role="member")
"""


def test_a_wrong_password_gets_a_sentence_and_the_right_one_leads_to_the_page_that_was_wanted(server,
                                                                                              open_page) -> None:
    server.manage("shell", "-c", NEW_PERSON)
    page = open_page(server, "/clusters/", signed_in=False)
    assert page.url.endswith("/sign-in/?next=/clusters/"), "who is not signed in is asked first"
    page.get_by_label("User name").fill("grace")
    page.get_by_label("Password").fill("microsecond-wire")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".notice")).to_contain_text("Please enter a correct username and password")
    assert page.get_by_label("User name").input_value() == "grace", "what was typed is kept"
    assert page.get_by_label("Password").input_value() == ""
    assert not [cookie for cookie in page.context.cookies() if cookie["name"] == "sessionid"]
    page.get_by_label("Password").fill("nanosecond-wire")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(re.compile("/clusters/$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Clusters")
    expect(page.locator("header")).to_contain_text("grace")

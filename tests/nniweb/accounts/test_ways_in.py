"""Whichever way somebody comes in: the session is a new one, and the page after it is one of ours."""

import pytest
from django.test import Client

from nniweb.experiments.models import SignInLink, User

WAYS = ["password", "link"]
PASSWORD = {"username": "max", "password": "a long pass phrase"}


def come_in(client: Client, way: str, person: User, wanted: str = "") -> str:
    """Returns where one is sent."""
    answer = client.post("/sign-in/", {**PASSWORD, "next": wanted}) if way == "password" else client.post(
        f"/sign-in/{SignInLink.make(person)}/?next={wanted}", {"next": wanted})
    assert answer.status_code == 302
    return str(answer["Location"])


@pytest.mark.parametrize("way", WAYS)
def test_a_session_that_somebody_else_has_planted_is_worth_nothing(way: str, client: Client, max_: User) -> None:
    session = client.session
    session["planted"] = True
    session.save()
    planted = session.session_key
    client.cookies["sessionid"] = planted
    come_in(client, way, max_)
    assert client.get("/api/v1/account/").json()["username"] == "max"
    thief = Client()
    thief.cookies["sessionid"] = planted
    assert thief.get("/api/v1/account/").status_code == 401


@pytest.mark.parametrize("wanted", ["https://evil.example/", "//evil.example/", "/\\evil.example",
                                    "javascript:alert(1)", "https:evil.example", "http:///evil.example", "\thttps://evil.example"])
@pytest.mark.parametrize("way", WAYS)
def test_nobody_is_sent_elsewhere(way: str, wanted: str, client: Client, max_: User) -> None:
    assert come_in(client, way, max_, wanted) == "/"


def test_the_page_that_was_wanted_is_one_of_ours(client: Client, max_: User) -> None:
    assert come_in(client, "password", max_, "/clusters/") == "/clusters/"
    assert client.get("/admin/login/", {"next": "https://evil.example/"}).status_code == 403
    away = Client().get("/admin/login/", {"next": "https://evil.example/"})
    assert away["Location"].startswith("/sign-in/?next="), "where it is judged"


@pytest.mark.parametrize("way", WAYS)
def test_who_was_signed_in_as_somebody_else_is_that_no_more(way: str, browser, max_: User, vera: User) -> None:
    client = browser(vera)
    before = client.cookies["sessionid"].value
    client.session["of"] = "vera"
    if way == "password":
        client.post("/sign-out/")
    come_in(client, way, max_)
    assert client.get("/api/v1/account/").json()["username"] == "max"
    thief = Client()
    thief.cookies["sessionid"] = before
    assert thief.get("/api/v1/account/").status_code == 401

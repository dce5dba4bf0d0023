"""What browsers and proxies may keep: scripts and styles, and nothing else."""

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory

from nniweb.middleware.private_answers import PrivateAnswersMiddleware


@pytest.mark.django_db
def test_static_files_may_be_kept_and_pages_not(client: Client) -> None:
    style = client.get("/static/css/nniweb.css")
    assert (style.status_code, style["Cache-Control"]) == (200, "max-age=60, public")
    assert "no-store" in client.get("/sign-in/")["Cache-Control"]
    assert "no-store" in client.get("/static/css/none.css")["Cache-Control"]
    assert "no-store" in client.get("/", headers={"host": "evil.example"})["Cache-Control"]


def test_what_says_how_long_it_may_be_kept_is_believed() -> None:
    answer = PrivateAnswersMiddleware(lambda request: HttpResponse(headers={"Cache-Control": "max-age=5"}))(
        RequestFactory().get("/"))
    assert answer["Cache-Control"] == "max-age=5"

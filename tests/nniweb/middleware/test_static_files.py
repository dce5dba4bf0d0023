"""The files of the pages are served as WhiteNoise serves them, and read when they are asked for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from whitenoise.middleware import WhiteNoiseMiddleware

from nniweb.middleware.static_files import StaticFilesMiddleware

Make = Callable[[type[WhiteNoiseMiddleware]], WhiteNoiseMiddleware]


@pytest.fixture
def make(settings: Any, tmp_path: Path) -> Make:
    """A middleware as on a server, with two folders: what the first has in common with the second hides it."""
    for folder, text in (("first", "one"), ("second", "two")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "both.css").write_text(text)
    (tmp_path / "second" / "page.js").write_text("let x = 1;")
    (tmp_path / "second" / "page.js.gz").write_bytes(b"packed")
    settings.WHITENOISE_AUTOREFRESH = False
    settings.STATIC_ROOT = None
    settings.STATICFILES_DIRS = [tmp_path / "first", ("lib", tmp_path / "second"), tmp_path / "second"]
    return lambda kind: kind(lambda _request: HttpResponse("a page", status=404))


@pytest.mark.parametrize("url", ["/static/both.css", "/static/lib/both.css", "/static/page.js", "/static/page.js.gz",
                                 "/static/none.js", "/static/", "/both.css", "/static/../settings.py"])
@pytest.mark.parametrize("headers", [{}, {"HTTP_ACCEPT_ENCODING": "gzip"}, {"HTTP_RANGE": "bytes=0-1"}])
def test_each_address_is_answered_as_by_whitenoise_also_the_second_time(make: Make, url: str, headers: dict[str, str]
                                                                      ) -> None:
    def answers(middleware: WhiteNoiseMiddleware) -> list[Any]:
        found = [middleware(RequestFactory().get(url, **headers)) for _ in range(2)]
        return [(one.status_code, dict(one.headers), b"".join(one)) for one in found]

    assert answers(make(StaticFilesMiddleware)) == answers(make(WhiteNoiseMiddleware))


def test_a_start_looks_at_no_file(make: Make) -> None:
    middleware = make(StaticFilesMiddleware)
    assert middleware.files == {}
    middleware(RequestFactory().get("/static/page.js"))
    assert list(middleware.files) == ["/static/page.js"]

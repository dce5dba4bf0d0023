"""The mail server as one address."""

import pytest

from nniweb.mail_settings import mail_settings


@pytest.mark.parametrize(("url", "host", "port", "starttls", "tls"), [
    ("smtp://mail.example", "mail.example", 25, False, False),
    ("smtp+starttls://mail.example", "mail.example", 587, True, False),
    ("smtps://mail.example", "mail.example", 465, False, True),
    ("smtp://[::1]:2525", "::1", 2525, False, False),
])
def test_the_scheme_says_how_it_is_encrypted(url: str, host: str, port: int, starttls: bool, tls: bool) -> None:
    found = mail_settings(url)
    assert (found["EMAIL_HOST"], found["EMAIL_PORT"]) == (host, port)
    assert (found["EMAIL_USE_TLS"], found["EMAIL_USE_SSL"]) == (starttls, tls)


def test_user_and_password_may_have_special_characters() -> None:
    found = mail_settings("smtps://me%40example.org:p%2Fw%3A@mail.example")
    assert (found["EMAIL_HOST_USER"], found["EMAIL_HOST_PASSWORD"]) == ("me@example.org", "p/w:")


def test_without_an_address_nothing_is_set() -> None:
    assert mail_settings("") == {}


@pytest.mark.parametrize("url", ["mail.example", "http://mail.example", "smtp://", "smtp://u:sesame@mail.example:x",
                                 "smtp://u:sesame@mail.example/inbox", "smtp://u:sesame@mail.example?tls=1"])
def test_what_is_no_such_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="is not the address of a mail server") as error:
        mail_settings(url)
    assert "sesame" not in str(error.value)

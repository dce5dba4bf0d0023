"""Which addresses look at a password: found by sending one to each, so that a new one fails until it stands here.

Wherever it is looked at, guessing is as slow as at the door.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import base_user
from django.db import transaction
from django.test import Client
from django.urls import get_resolver

import nniweb
from nniweb.experiments.models import AuditEntry, SignInAttempt, User
from nniweb.http.callers.authentication import SessionAuthentication, TokenAuthentication
from nniweb.nniapi.ports import PortAuthentication
from tests.nniweb.access.every_address import Call, of_django, walk
from tests.nniweb.access.roles import World

RIGHT, WRONG = "a long pass phrase", "not it"
DOORS = {Call("POST", "/sign-in/"), Call("POST", "/account/password/"), Call("POST", "/account/email/")}


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Passwords that were compared with a hash, at any door."""
    found: list[str] = []
    real = base_user.check_password

    def noted(password: str, *of: Any, **how: Any) -> bool:
        found.append(password)
        return real(password, *of, **how)

    monkeypatch.setattr(base_user, "check_password", noted)
    return found


def filled_in(password: str) -> dict[str, str]:
    """Every field that a form with a password might have."""
    return {**dict.fromkeys(("password", "old_password", "current_password", "passwd"), password),
            "username": "ada", "email": "new@example.org",
            **dict.fromkeys(("new_password1", "new_password2", "password1", "password2"), "a new phrase of words")}


def send(client: Client, call: Call, world: World, password: str) -> None:
    """In a form, or in a document; what it does is undone."""
    cookies, path = client.cookies.copy(), world.path(call.address)
    kind = {"content_type": "application/json"} if "/api/v1/" in path else {}
    with transaction.atomic():
        getattr(client, call.method.lower())(path, filled_in(password), **kind)
        transaction.set_rollback(True)
    client.cookies = cookies


@pytest.mark.timeout(300)  # some three hundred requests
def test_the_addresses_that_look_at_a_password_are_known(world: World, looked_at: list[str], settings: Any) -> None:
    settings.MAIL_URL = "smtp://mail.example.org"  # the tests' backend keeps what is sent
    ada: User = world.people["admin"]  # type: ignore[assignment]  # there is one
    ada.set_password(RIGHT)
    ada.save()
    anonymous, signed_in = Client(raise_request_exception=False), Client(raise_request_exception=False)
    signed_in.force_login(ada)
    found = set()
    for call in of_django():
        if call.method != "GET":
            looked_at.clear()
            send(signed_in, call, world, WRONG)
            if not call.address.startswith("/api/v1/"):  # there whoever is not signed in gets no further, see below
                send(anonymous, call, world, WRONG)
            if looked_at:
                found.add(call)
    assert found == DOORS, "a new door needs a person's decision, and belongs to those that the next test tries"


def test_rest_knows_people_by_token_session_and_own_port_and_never_by_password() -> None:
    views = [getattr(pattern.callback, "cls", None) for _, pattern in walk(get_resolver(), "/")]
    found = {kind for view in views for kind in getattr(view, "authentication_classes", ())}
    assert found == {TokenAuthentication, SessionAuthentication, PortAuthentication}


@pytest.mark.parametrize("door", sorted(DOORS))
def test_guessing_is_slow_at_each_of_them_and_what_failed_at_one_counts_at_all(
        client: Client, admin: User, looked_at: list[str], settings: Any, door: Call) -> None:
    settings.MAIL_URL = "smtp://mail.example.org"
    admin.set_password(RIGHT)
    admin.save()
    if door.address != "/sign-in/":
        client.force_login(admin)
    for _ in range(5):
        client.post(door.address, filled_in(WRONG))
    assert looked_at == [WRONG] * 5
    assert AuditEntry.objects.filter(action="sign-in.failed", name="ada").count() == 5
    client.force_login(admin)
    for other in sorted(DOORS - {Call("POST", "/sign-in/")}):
        answer = client.post(other.address, filled_in(RIGHT))
        assert "Too many attempts" in answer.content.decode()
    client.logout()
    assert client.post("/sign-in/", filled_in(RIGHT)).status_code == 429
    assert looked_at == [WRONG] * 5, "the right one is not tried either"
    assert SignInAttempt.objects.count() == 5


def test_no_code_looks_at_passwords_past_the_count() -> None:
    """Django compares them in ``hashers``; what asks ``User.check_password`` or the backends is counted."""
    past = re.compile(r"hashers|super\(\)\.a?check_password|AbstractBaseUser\.|BasicAuthentication|"
                      r"\b(Remote\w*|ModelBackend|AllowAll\w*Backend)\b")
    root = Path(nniweb.__file__).parent
    found = {(str(path.relative_to(root)), match[0]) for path in root.rglob("*.py")
             for match in past.finditer(path.read_text())}
    assert found == {
        ("experiments/models/account.py", "super().check_password"),  # inside an attempt
        ("experiments/access/sign_in_attempts.py", "ModelBackend"),  # the counted one is made of it
        # of sessions; it is not asked
        ("dashboard/account/sign_in.py", "ModelBackend"), ("settings.py", "ModelBackend"),
    }


def test_djangos_own_backend_is_never_asked(admin: User, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.contrib.auth.backends import ModelBackend

    asked = []
    real = ModelBackend.authenticate

    def noted(self: ModelBackend, *of: Any, **how: Any) -> Any:
        asked.append(type(self).__name__)
        return real(self, *of, **how)

    monkeypatch.setattr(ModelBackend, "authenticate", noted)
    for name in ("ada", "nobody"):
        assert client.post("/sign-in/", {"username": name, "password": WRONG}).status_code == 200
    assert asked == ["CountedPasswords"] * 2

"""Every address that changes something, asked for with leashes: each needs the role that its table says.

The table is ``nniweb.http.callers.leash_table`` and, for people, docs/leashes.md. A new address fails here until
somebody has decided which role it needs, or that no leash may ask for it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from nniweb.experiments.models import ApiToken, User
from nniweb.experiments.models.account import LeashRole, Scope
from nniweb.http.callers.leash_table import TABLE
from tests.nniweb.access.every_address import Call, of_django
from tests.nniweb.access.roles import ROLES, World
from tests.nniweb.access.test_every_address import the_table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "leashes.md"
EVERY_ROLE = [role.value for role in LeashRole]


def unsafe() -> list[Call]:
    """What changes something and answers tokens: REST and NNI's interface."""
    return [call for call in of_django() if "/api/v1/" in call.address and call.method not in ("GET", "WEBSOCKET")]


def leash(person: User, roles: list[str], **fields: Any) -> dict[str, str]:
    """Headers with a new token."""
    secret, _ = ApiToken.make_with_row(person, "agent", Scope.CHANGE, None, roles=roles, **fields)
    return {"Authorization": f"Token {secret}"}


def answer(call: Call, world: World, headers: dict[str, str]) -> tuple[str, str]:
    """The status, and the body; whatever it did is undone."""
    with transaction.atomic():
        found = Client(raise_request_exception=False).generic(
            call.method, world.path(call.address), "{}", "application/json", headers=headers)
        transaction.set_rollback(True)
    return str(found.status_code), found.content.decode()


def test_each_address_that_changes_something_has_an_entry_and_each_entry_an_address() -> None:
    calls = {(call.method, call.address) for call in unsafe()}
    # wrong addresses below /api/v1/ are answered by one view, which no leash needs
    calls -= {("POST", "/api/v1/")}
    assert calls == TABLE.keys(), (f"decide in nniweb/http/callers/leash_table.py: {sorted(calls - TABLE.keys())}; "
                                   f"of nothing: {sorted(TABLE.keys() - calls)}")


def test_the_page_for_people_has_the_same_table() -> None:
    rows = re.findall(r"^\| ([A-Z]+) \| `([^`]+)` \| (\w+) \|$", PAGE.read_text(), re.MULTILINE)
    page = {(method, address): role for method, address, role in rows}
    table = {key: role.value if role is not None else "none" for key, role in TABLE.items()}
    wrong = "\n".join(f"| {method} | `{address}` | {role} |" for (method, address), role in table.items()
                      if page.get((method, address)) != role)
    assert page == table, f"docs/leashes.md says otherwise, or nothing, about these:\n{wrong}"


@pytest.mark.timeout(300)  # some hundred and fifty requests
def test_each_address_answers_a_leash_with_its_role_as_the_person_and_refuses_all_others(world: World) -> None:
    member: User = world.people["member"]  # type: ignore[assignment]  # there is one
    of_role = {role: leash(member, [role.value], everything=True) for role in LeashRole}
    of_others = {role: leash(member, [one for one in EVERY_ROLE if one != role.value], everything=True)
                 for role in LeashRole}
    of_all = leash(member, EVERY_ROLE, everything=True)
    own_only = leash(member, EVERY_ROLE)
    people, column = the_table(), 1 + ROLES.index("member")
    wrong = []
    for (method, address), role in TABLE.items():
        call = Call(method, address)
        refused = of_all if role is None else of_others[role]
        if answer(call, world, refused)[0] != "403":
            wrong.append(f"{call} is not refused")
        if role is None:
            continue
        expected = people[call][column - 1]
        found = answer(call, world, of_role[role])
        if found[0] != expected:
            wrong.append(f"{call} answers {found}, not {expected}")
        if "_id>" in address and "launched itself" not in answer(call, world, own_only)[1]:
            wrong.append(f"{call} acts on what the token has not launched")
    assert not wrong, "\n".join(wrong)


def test_without_the_role_read_a_leash_learns_its_own_limits_and_nothing_else(world: World) -> None:
    member: User = world.people["member"]  # type: ignore[assignment]  # there is one
    headers = leash(member, ["launch"], max_trials=3)
    allowed = [call.address for call in of_django() if call.method == "GET"
               and ("/api/v1/" in call.address or "schema" in call.address)
               and answer(call, world, headers)[0] != "403"]
    assert allowed == ["/api/v1/account/"]
    told = Client().get("/api/v1/account/", headers=headers).json()["leash"]
    assert (told["roles"], told["max_trials"], told["everything"]) == (["launch"], 3, False)
    reader = leash(member, ["read"])
    assert answer(Call("GET", "/api/v1/experiments/<experiment_id>/"), world, reader)[0] == "200"


def test_no_page_and_no_figures_open_with_a_leash(world: World) -> None:
    admin: User = world.people["admin"]  # type: ignore[assignment]  # there is one
    headers = leash(admin, EVERY_ROLE, everything=True)
    opened = [call.address for call in of_django() if "/api/" not in call.address and call.method == "GET"
              and answer(call, world, headers) != answer(call, world, {}) and call.address != "/sign-in/"]
    assert opened == []
    assert answer(Call("GET", "/metrics"), world, headers)[0] == "401"

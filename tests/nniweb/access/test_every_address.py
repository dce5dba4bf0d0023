"""Who may open what: every address there is, asked for by everybody there can be, compared with docs/access.md.

The table is written by hand. What is new, or answers otherwise than it says, fails here with the row that would be
right, for somebody to decide whether it is.
"""

import json
import re
from pathlib import Path

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from nniweb.experiments.models import Metric, Trial
from tests.nniweb.access.asgi_client import cookie_of, status_of
from tests.nniweb.access.every_address import Call, every_call, of_django, of_keepers, of_probes, of_websockets
from tests.nniweb.access.roles import ROLES, World

TABLE = Path(__file__).resolve().parents[3] / "docs" / "access.md"
#: Where whoever must sign in first is sent.
WAYS_IN = ("/sign-in/", "/admin/login/")
Answers = tuple[str, ...]


def the_table() -> dict[Call, Answers]:
    """The rows: what is called -> the status that each of ROLES is answered with."""
    rows: dict[Call, Answers] = {}
    for line in TABLE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"[A-Z]{3,}", cells[0]) and len(cells) == 2 + len(ROLES):
            call = Call(cells[0], cells[1].strip("`"))
            assert call not in rows, f"{call} has two rows"
            rows[call] = tuple(cells[2:])
    return rows


def row(call: Call, answers: Answers) -> str:
    return f"| {call.method} | `{call.address}` | {' | '.join(answers)} |"


def compare(found: dict[Call, Answers]) -> None:
    table = the_table()
    wrong = [row(call, answers) for call, answers in found.items() if table.get(call) != answers]
    assert not wrong, ("docs/access.md says otherwise, or nothing, about these. Where the answers are as they should "
                       "be (nobody sees or changes what is not theirs), put the rows there:\n" + "\n".join(wrong))


def test_every_address_has_a_row_and_every_row_an_address() -> None:
    calls = set(every_call())
    assert calls == the_table().keys(), f"without a row: {sorted(calls - the_table().keys())}; " \
                                        f"of nothing: {sorted(the_table().keys() - calls)}"


def test_nobody_who_is_not_signed_in_gets_anything_but_ways_to_sign_in() -> None:
    """Of the table itself: whoever changes it changes this list as well, and sees what that means."""
    kept_out = ("sign in", "401", "4401", "405")
    let_in = {call.address for call, (anonymous, *_) in the_table().items() if anonymous not in kept_out}
    assert let_in == {"/sign-in/", "/sign-in/<secret>/", "/sign-in/single-sign-on/", "/sign-in/single-sign-on/back/",
                      "/password-reset/", "/password-reset/asked/", "/password-reset/<uidb64>/<token>/", "/healthz",
                      "/readyz", "/csp-report/", "/docs/", "/docs/<page>"}


def test_strangers_find_nothing_and_viewers_change_nothing() -> None:
    """Of the table itself."""
    table = the_table()
    names = ("<experiment_id>", "<trial_id>", "<public_id>")
    of_others = {call: answers for call, answers in table.items()
                 if any(name in call.address for name in names) and "clusters/" not in call.address}
    assert len(of_others) > 50
    assert {answers[ROLES.index("stranger")] for answers in of_others.values()} <= {"401", "404", "405"}
    changes = {call: answers for call, answers in of_others.items() if call.method not in ("GET", "WEBSOCKET")}
    assert {answers[ROLES.index("viewer")] for answers in changes.values()} <= {"401", "403", "404", "405"}
    of_admin = [answers for call, answers in table.items()
                if call.address.startswith("/admin/") and "log" not in call.address]
    assert len(of_admin) > 10
    assert all(set(answers[:-1]) <= {"sign in", "403"} for answers in of_admin)


@pytest.mark.timeout(400)  # more than a thousand requests
def test_pages_rest_admin_and_nnis_interface_answer_everybody_as_the_table_says(world: World) -> None:
    clients = []
    for role in ROLES:
        clients.append(Client(raise_request_exception=False))
        if (person := world.people[role]) is not None:
            clients[-1].force_login(person)
    compare({call: tuple(django_status(client, call, path) for client in clients)
             for call in of_django() for path in (world.path(call.address),)})


def django_status(client: Client, call: Call, path: str) -> str:
    """What the call to ``path`` is answered with; whatever it did is undone."""
    session = client.cookies.copy()
    kind = "application/json" if "/api/v1/" in call.address else "application/x-www-form-urlencoded"
    with transaction.atomic():
        answer = client.generic(call.method, path, "{}" if "json" in kind else "", kind)
        transaction.set_rollback(True)
    client.cookies = session
    if answer.status_code == 302 and answer["Location"].startswith(WAYS_IN):
        return "sign in"
    return str(answer.status_code)


@pytest.mark.django_db(transaction=True)
def test_keepers_doors_probes_and_websockets_answer_everybody_as_the_table_says(world: World) -> None:
    """With sessions: what opens the keepers' doors is the token of an attempt, and nothing else."""
    cookies = [cookie_of(world.people[role]) for role in ROLES]
    compare({call: tuple(status_of(call.method, world.path(call.address), cookie) for cookie in cookies)
             for calls in (of_keepers(), of_probes(), of_websockets()) for call in calls})


@pytest.mark.parametrize("half", ['{"default": "\ud800\\u0000", "a\ud800": Infinity}', *(
    pytest.param(half, marks=pytest.mark.slow) for half in ('"\ud800"', "\ud800\x00 x"))])
def test_no_address_fails_over_halves_of_characters_that_a_trial_reported(world: World, half: str) -> None:
    now = timezone.now()
    for n, kind in enumerate(("PERIODICAL", "FINAL"), 100):
        Metric.objects.create(attempt=world.attempt, n=n, kind=kind, sequence=n, value=half, recorded_at=now,
                              received_at=now, parameter_id=json.dumps("\ud800"))
    Trial.objects.filter(pk=world.attempt.trial_id).update(final_value=half, status="SUCCEEDED")
    client = Client(raise_request_exception=False)
    client.force_login(world.people["admin"])  # type: ignore[arg-type]  # there is one
    failed = {call for call in of_django() if call.method == "GET"
              and int(django_status(client, call, world.path(call.address))) >= 500}
    assert failed == set()
    path = f"/nni/{world.attempt.trial.experiment.public_id}/api/v1/nni/metric-data"
    assert {row["parameterId"] for row in client.get(path).json() if row["sequence"] >= 100} == {"\ud800"}


def test_nothing_that_is_private_is_kept_by_a_browser_or_a_proxy(world: World) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(world.people["admin"])  # type: ignore[arg-type]  # there is one
    kept = {call for call in of_django() if call.method == "GET"
            for answer in (client.get(world.path(call.address)),) if "no-store" not in answer.get("Cache-Control", "")}
    assert kept == set()


def test_no_session_changes_anything_without_the_token_against_forged_requests(world: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.people["admin"])  # type: ignore[arg-type]  # there is one
    answers = {call: client.generic(call.method, world.path(call.address), "{}", "application/json").status_code
               for call in of_django() if call.method != "GET"}
    assert len(answers) > 100
    assert {call for call, status in answers.items() if status != 403} == {Call("POST", "/csp-report/")}, "it only logs"


@pytest.mark.django_db(transaction=True)
def test_under_another_name_or_from_another_sites_page_nothing_answers(world: World) -> None:
    """DNS that is bent to this server, and pages elsewhere that open a websocket in a visitor's name."""
    cookie = cookie_of(world.people["admin"])
    assert status_of("GET", "/", cookie) == "200"
    assert status_of("GET", "/", cookie, host=b"evil.example") == "400"
    assert status_of("GET", "/api/v1/experiments/", cookie, host=b"evil.example") == "400"
    assert status_of("WEBSOCKET", "/live/", cookie) == "open"
    assert status_of("WEBSOCKET", "/live/", cookie, origin=b"https://evil.example") == "403"
    for origin in (b"", b"http://localhost:8081", b"https://localhost"):
        assert status_of("WEBSOCKET", "/live/", cookie, origin=origin) == "403"
    assert status_of("WEBSOCKET", "/live/", cookie, host=b"localhost:8081", origin=b"http://localhost:8081") == "open"

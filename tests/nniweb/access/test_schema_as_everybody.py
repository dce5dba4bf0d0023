"""The REST interface against its own description, asked by each kind of person: nothing fails, nothing is undocumented,
and what is not theirs does not show.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from django.urls import Resolver404, resolve
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from nniweb.experiments.models import ApiToken, Metric, User
from tests.nniweb.access.roles import ROLES, World, make_world

#: In everything of the member's experiment that is shown anywhere.
MARK = "x7f3mark"
#: What any operation may answer besides what it documents by number: errors, in the form that "default" describes.
ERRORS = {400, 401, 403, 404, 405, 406, 409, 413, 415, 429, 503}
#: Below these nothing is a viewer's to change; elsewhere it may be their own account, tokens and notifications.
NOT_ONES_OWN = tuple(f"/api/v1/{name}/" for name in ("experiments", "trials", "clusters", "users", "groups"))
METHODS = ("get", "post", "put", "patch", "delete")
#: Answers to examples, in which the ids are those of what there is or made up.
EXAMPLES = 6


@pytest.fixture
def world(make_experiment: Any, make_attempt: Any, admin: User, settings: Any, tmp_path: Path) -> World:
    settings.DATA_FOLDER = tmp_path
    experiment = make_experiment(name=MARK, notes=[MARK], tags=[MARK], trial_command=f"echo {MARK}")
    attempt = make_attempt(experiment, message=MARK, tags=[MARK])
    Metric.objects.create(attempt=attempt, n=1, kind="FINAL", sequence=0, value=f'"{MARK}"',
                          recorded_at=attempt.created_at, received_at=attempt.created_at)
    return make_world(experiment, attempt, admin)


@pytest.fixture
def keep_connection() -> Iterator[None]:
    """Requests come through WSGI as from outside, but to the connection that holds the test's transaction."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("keep_connection")
@pytest.mark.parametrize("role", ROLES)
def test_every_operation_keeps_its_word_to_everybody(role: str, world: World, settings: Any, tmp_path: Path) -> None:
    settings.API_RATE = 0
    settings.DATA_FOLDER = tmp_path
    document = json.loads(json.dumps(SchemaGenerator().get_schema(request=None, public=True), default=str))
    schema = schemathesis.openapi.from_dict(document)
    schema.app = get_wsgi_application()
    person = world.people[role]
    headers = {"Authorization": f"Token {ApiToken.make(person)}"} if person is not None else {}
    asked = 0
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                ask(schema[path][method.upper()], world, headers, role)
                asked += 1
    assert asked > 50


def leads_somewhere(url: str) -> bool:
    """Whether anything answers there: an id that has characters no id has leads nowhere, for everybody alike."""
    try:
        resolve(unquote(urlsplit(url).path))
    except Resolver404:
        return False
    return True


def ask(operation: Any, world: World, headers: dict[str, str], role: str) -> None:
    @examples(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(), is_real=st.booleans())
    def each(case: Any, is_real: bool) -> None:
        if is_real and case.path_parameters:
            ids = {name: world.ids.get(name, value) for name, value in case.path_parameters.items()}
            case.path_parameters = {name: value if isinstance(value, int) else str(value)
                                    for name, value in ids.items()}
        with transaction.atomic():
            response = case.call(headers=headers)
            transaction.set_rollback(True)
        what = f"{operation.label} as {role} was answered {response.status_code}: {response.text[:500]}"
        documented = {int(code) for code in operation.responses.status_codes if str(code).isdigit()}
        assert response.status_code in documented | ERRORS, what
        case.validate_response(response, checks=[not_a_server_error, status_code_conformance,
                                                 content_type_conformance, response_schema_conformance])
        if role == "anonymous" and leads_somewhere(response.request.url):
            assert response.status_code in (401, 405), what
        if role in ("anonymous", "stranger"):
            assert MARK not in response.text, what
        if role == "viewer" and operation.method.upper() != "GET" and operation.path.startswith(NOT_ONES_OWN):
            assert response.status_code >= 400, what

    each()

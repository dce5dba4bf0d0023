"""A change by a token that is under way when the token is ended: it is over before anything is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django.utils import timezone

from nniweb.experiments.access import leashes
from nniweb.experiments.access.request_actor import asked_by, known_as
from nniweb.experiments.actions import token_end
from nniweb.experiments.models import ApiToken, Experiment, User
from nniweb.experiments.models.account import Scope

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_a_request_begins_while_its_token_is_ended_is_stopped_with_the_rest(
        make_experiment: Callable[..., Experiment], admin: User) -> None:
    token = ApiToken.make_with_row(admin, "agent", Scope.CHANGE, None, roles=["launch"])[1]
    make_experiment()  # its cluster is there
    holds, ends = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def launch() -> None:
        try:
            with asked_by("the request"), transaction.atomic():
                known_as(admin, "token agent", token)
                leashes.must_hold()
                holds.set()
                assert ends.wait(60)
                # whoever ends the token is at its door by now, or comes when this is over
                ended.join(0.2)
                make_experiment(token=token, created_at=timezone.now())
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    def end() -> None:
        try:
            assert holds.wait(60)
            ends.set()
            stopped.append(token_end.end(ApiToken.objects.get(pk=token.pk), admin, stop=True))
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    stopped: list[token_end.Stopped] = []
    launched, ended = threading.Thread(target=launch), threading.Thread(target=end)
    for thread in (launched, ended):
        thread.start()
    for thread in (launched, ended):
        thread.join(90)
    assert not failures, failures
    assert stopped == [token_end.Stopped(1, 0)]
    experiment = Experiment.objects.get(token=token)
    assert (experiment.target, experiment.reason) == ("STOP", "token_ended")

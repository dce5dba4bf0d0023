"""How trials are started on a machine is told in the experiment's history."""

import pytest

from nniweb.experiments.models import Attempt, ExperimentEvent
from tests.nniweb.experiments.ingest.test_ingest import deliver, ended, started

pytestmark = pytest.mark.django_db

WARM = {"warm": True, "memory": 12_500_000, "modules": 12, "learns": False}


def test_a_warm_start_is_told_once_for_a_machine_whether_its_name_came_before_or_with_the_end(
        make_attempt, make_experiment) -> None:
    experiment = make_experiment()
    first, second = make_attempt(experiment), make_attempt(experiment)
    deliver(first, started(), ended(2, warm_start=WARM))
    deliver(second, started())
    deliver(second, ended(2, warm_start=WARM))
    assert set(Attempt.objects.values_list("machine_name", flat=True)) == {"box"}
    [event] = ExperimentEvent.objects.filter(kind="warm start")
    assert event.message.startswith("Trials on machine box are started warm")


@pytest.mark.parametrize("odd", [{"memory": 10**400}, {"modules": 10**4000}, {"memory": -1}, {"memory": True}],
                         ids=["memory", "modules", "less than nothing", "no number"])
def test_what_no_start_can_take_is_not_told_and_the_end_is_stored(make_attempt, odd) -> None:
    attempt = make_attempt()
    deliver(attempt, started(), ended(2, warm_start=WARM | odd))
    attempt.refresh_from_db()
    assert attempt.stage == Attempt.Stage.ENDED
    assert not ExperimentEvent.objects.filter(kind="warm start").exists()

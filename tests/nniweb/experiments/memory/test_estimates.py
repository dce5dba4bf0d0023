"""What is predicted from the attempts that have ended, and what the trial's page and REST say of it."""

from collections.abc import Callable, Iterator

import pytest
from django.test import Client

from nniweb.experiments.memory import estimates
from nniweb.experiments.memory.estimates import model_of, predicted
from nniweb.experiments.models import Attempt, Experiment, TrialParameters

pytestmark = pytest.mark.django_db
GB = 1024 ** 3
MakeAttempt = Callable[..., Attempt]


@pytest.fixture(autouse=True)
def _no_models() -> Iterator[None]:
    estimates.forget_models()
    yield
    estimates.forget_models()


def ended(make_attempt: MakeAttempt, experiment: Experiment, batch: int, **fields: object) -> Attempt:
    attempt = make_attempt(experiment, status="SUCCEEDED")
    TrialParameters.objects.filter(trial=attempt.trial).update(value={"batch": batch})
    Attempt.objects.filter(pk=attempt.pk).update(
        **{"stage": "ended", "end_reason": "exited", "exit_code": 0, "gpu_peak": batch * GB // 8, "gpu_indices": [0],
           **fields})
    return attempt


def test_the_model_knows_what_has_ended_of_this_experiment(make_experiment: Callable[..., Experiment],
                                                           make_attempt: MakeAttempt) -> None:
    mine, other = make_experiment(), make_experiment()
    for batch in (8, 16, 32, 64, 128, 256):
        ended(make_attempt, mine, batch)
    assert predicted(other.pk, {"batch": 32}) is None
    prediction = predicted(mine.pk, {"batch": 32})
    assert prediction is not None
    assert prediction.trials == 6
    assert 3.9 * GB < prediction.expected < 4.1 * GB < prediction.upper < 5 * GB


@pytest.mark.parametrize("fields", [{"gpu_peak": None}, {"exit_code": 1}, {"stage": "submitted"}])
def test_what_tells_nothing_does_not_count(make_experiment: Callable[..., Experiment], make_attempt: MakeAttempt,
                                           fields: dict[str, object]) -> None:
    experiment = make_experiment()
    for batch in (8, 16, 32, 64, 128):
        ended(make_attempt, experiment, batch, **({} if batch < 128 else fields))
    assert model_of(experiment.pk) is None


def test_one_that_ran_out_alone_needed_more_than_its_gpu_had(make_experiment: Callable[..., Experiment],
                                                             make_attempt: MakeAttempt) -> None:
    experiment = make_experiment()
    for batch in (8, 16, 32, 64):
        ended(make_attempt, experiment, batch)
    ended(make_attempt, experiment, 512, exit_code=1, gpu_peak=None, out_of_memory="gpu", gpu_alone=True,
          gpu_total=80 * GB)
    prediction = predicted(experiment.pk, {"batch": 512})
    assert prediction is not None
    assert prediction.upper > 80 * GB


def test_a_further_end_is_seen_after_a_moment(make_experiment: Callable[..., Experiment], make_attempt: MakeAttempt
                                              ) -> None:
    experiment = make_experiment()
    for batch in (8, 16, 32, 64, 128):
        ended(make_attempt, experiment, batch)
    first = model_of(experiment.pk, monotonic=100.0)
    ended(make_attempt, experiment, 256)
    assert model_of(experiment.pk, monotonic=101.0) is first
    later = model_of(experiment.pk, monotonic=103.0)
    assert later is not None
    assert later.trials == 6
    assert model_of(experiment.pk, monotonic=106.0) is later, "nothing has changed since"


def test_the_page_and_rest_tell_what_a_trial_had_and_what_it_was_to_need(
        make_experiment: Callable[..., Experiment], make_attempt: MakeAttempt, admin_client: Client) -> None:
    experiment = make_experiment()
    attempts = [ended(make_attempt, experiment, batch) for batch in (8, 16, 32, 64, 128)]
    trial = attempts[2].trial
    html = admin_client.get(f"/trials/{trial.public_id}/").content.decode()
    assert "GPU memory: it had at most 4.0 GB on one GPU." in html
    assert "by 5 trials of the experiment" in html
    [told] = admin_client.get(f"/api/v1/trials/{trial.public_id}/attempts/").json()["results"]
    assert (told["gpu_peak"], told["out_of_memory"]) == (4 * GB, None)


def test_the_page_and_rest_tell_what_a_trial_may_have_of_its_machine(
        make_experiment: Callable[..., Experiment], make_attempt: MakeAttempt, admin_client: Client) -> None:
    attempt = ended(make_attempt, make_experiment(), 8, held_cpus=1.5, held_memory=8 * GB)
    address = f"/trials/{attempt.trial.public_id}/"
    assert "It may have 1.5 CPUs and 8.0 GB of memory." in admin_client.get(address).content.decode()
    [told] = admin_client.get(f"/api/v1{address}attempts/").json()["results"]
    assert (told["held_cpus"], told["held_memory"]) == (1.5, 8 * GB)
    other = ended(make_attempt, attempt.trial.experiment, 16).trial.public_id
    assert "machine-share" not in admin_client.get(f"/trials/{other}/").content.decode()

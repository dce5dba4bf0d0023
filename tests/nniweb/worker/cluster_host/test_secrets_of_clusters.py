"""What a platform says is masked with the secrets of its cluster, wherever that is written down, and with no others."""

from typing import Any

from nniweb.experiments.models import Trial
from trainingservice.errors import PermanentError
from trainingservice.secrets_in_use import learn, own_secrets
from trainingservice.testing.misbehaving import DocileTrainingService

SAID = "It was refused with open sesame."


class Talkative(DocileTrainingService):
    """Tells the password that it was built with."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        learn("open sesame")

    def submit_trial_job(self, form: Any) -> Any:
        raise PermanentError(SAID)


class Quoting(DocileTrainingService):
    """Has no password, and says the same words."""

    def submit_trial_job(self, form: Any) -> Any:
        raise PermanentError(SAID)


def message_of_a_trial(rig: Any) -> str:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    rig.until(lambda: Trial.objects.filter(experiment=experiment, status="FAILED").exists())
    return str(Trial.objects.get(experiment=experiment).message)


def test_a_cluster_s_secret_is_struck_out_of_what_its_platform_says_and_of_nothing_else(make_rig: Any) -> None:
    with own_secrets():  # as each thread of rounds has them
        assert message_of_a_trial(make_rig(Talkative)) == "It was refused with ***."
    with own_secrets():
        assert message_of_a_trial(make_rig(Quoting)) == SAID

"""The log-in to an OpenPAI cluster: whose fault it is that a token is refused, and that no secret is shown."""

import base64
import json
import logging

from tests.trainingservice.jobs_of_tests import lasting
from tests.trainingservice.openpai.conftest import name_of
from trainingservice.openpai import rehearsal, token_doubt
from trainingservice.openpai.token_doubt import BLAME_AFTER, FORGET_AFTER, TokenDoubt
from trainingservice.trial_job_status import TrialJobStatus

WAITING, RUNNING = TrialJobStatus.WAITING, TrialJobStatus.RUNNING


def test_a_token_that_runs_out_is_one_sentence_on_the_cluster_and_trials_wait(bench, cluster, monkeypatch):
    monkeypatch.setattr(token_doubt, "BLAME_AFTER", 0.3)
    service = bench.open_service()
    form, starts, go = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    user = cluster.tokens.pop(cluster.token)
    waiting = bench.form("echo later")
    service.submit_trial_job(waiting)
    bench.wait("the cluster says so", lambda: "does not accept the token of user ada" in service.trouble)
    assert "application token" in service.trouble
    bench.wait("the trial says so", lambda: "does not accept" in service.get_trial_job(waiting.job_name).message)
    assert service.get_trial_job(waiting.job_name).status is WAITING
    assert service.get_trial_job(form.job_name).status is RUNNING
    cluster.tokens[cluster.token] = user
    go.touch()
    bench.wait_for_end(service, form)
    bench.wait_for_end(service, waiting)
    bench.wait("the cluster is well", lambda: service.trouble == "")
    assert starts.read_text() == "start\n"


def test_with_a_password_a_new_token_is_fetched_when_the_old_one_is_refused(bench, platform, cluster, monkeypatch):
    settings = platform.settings(password=cluster.password)
    monkeypatch.setattr(platform, "settings", lambda: settings)
    service = bench.open_service()
    first = bench.form("echo 1")
    service.submit_trial_job(first)
    bench.wait_for_end(service, first)
    cluster.tokens.clear()
    second = bench.form("echo 2")
    service.submit_trial_job(second)
    bench.wait_for_end(service, second)
    assert cluster.count("POST", "basic/login") == 2


def test_a_wrong_password_is_said_before_the_launch(bench, platform, cluster, monkeypatch):
    settings = platform.settings(password="wrong-word")
    monkeypatch.setattr(platform, "settings", lambda: settings)
    blocking = [finding.message for finding in platform.new_service(bench.context()).rehearse(quick=True)
                if finding.blocks]
    assert len(blocking) == 1
    assert "IncorrectPasswordError" in blocking[0]
    assert "wrong-word" not in blocking[0]


def test_no_secret_is_in_a_log_or_in_what_others_may_read(bench, cluster, caplog):
    caplog.set_level(logging.DEBUG)
    service = bench.open_service()
    form = bench.form("echo done")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    for secret in (cluster.token, form.keeper.token):
        assert secret not in caplog.text
        assert secret not in str(service.get_trial_job(form.job_name).platform_state)
    assert form.keeper.token not in str({**cluster.job(name_of(form)).document, "secrets": "masked"})
    for path in cluster.export.rglob("*"):
        if path.is_file() and form.keeper.token.encode() in path.read_bytes():
            assert path.stat().st_mode & 0o077 == 0, path


def test_the_token_is_not_blamed_while_kubernetes_is_away(bench, cluster):
    """The server says of each token that it is invalid then."""
    service = bench.open_service()
    form, starts, go = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, RUNNING)
    cluster.kubernetes.clear()
    waiting = bench.form("echo later")
    service.submit_trial_job(waiting)
    bench.wait("the cluster says so", lambda: "while its Kubernetes cannot be reached" in service.trouble)
    bench.wait("the trial says so", lambda: "cannot be reached" in service.get_trial_job(waiting.job_name).message)
    for text in (service.trouble, service.get_trial_job(waiting.job_name).message):
        assert "Make a new token" not in text
    assert service.get_trial_job(waiting.job_name).status is WAITING
    assert service.get_trial_job(form.job_name).status is RUNNING
    cluster.kubernetes.set()
    go.touch()
    for each in (form, waiting):
        bench.wait_for_end(service, each)
    bench.wait("the cluster is well", lambda: service.trouble == "")


def test_a_token_that_ran_out_by_its_own_words_is_blamed_at_once(bench, platform, cluster, monkeypatch):
    claims = base64.urlsafe_b64encode(json.dumps({"username": "ada", "exp": 1000}).encode()).decode().rstrip("=")
    settings = platform.settings().model_copy(update={"token": type(platform.settings().token)(f"e30.{claims}.s")})
    monkeypatch.setattr(platform, "settings", lambda: settings)
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait("it is said", lambda: "does not accept the token" in service.get_trial_job(form.job_name).message)
    assert cluster.count("POST", "/v2/jobs") == 1


def test_a_token_is_blamed_that_is_refused_for_a_minute_and_never_accepted():
    now = [0.0]
    doubt = TokenDoubt(lambda: now[0])
    assert [doubt.refused() for _ in range(5)] == [False] * 5
    now[0] += 59.0
    assert not doubt.refused()
    doubt.accepted()
    now[0] += 1.0
    assert not doubt.refused()
    now[0] += 61.0
    assert [doubt.refused(), doubt.refused()] == [False, True]


def test_a_refusal_of_long_ago_does_not_blame_a_token_for_an_outage_of_now():
    now = [1000.0]
    doubt = TokenDoubt(lambda: now[0])
    assert not doubt.refused()
    now[0] += FORGET_AFTER + 1.0
    assert [doubt.refused() for _ in range(3)] == [False] * 3
    now[0] += BLAME_AFTER
    assert doubt.refused()


def rights(platform, bench):
    return next(finding for finding in platform.new_service(bench.context()).rehearse(quick=True)
                if finding.check in ("rights", "connection") and not finding.message.count("answers (version"))


def test_the_rehearsal_asks_again_before_it_blames_the_token(bench, platform, cluster, monkeypatch):
    refused = []
    answer = cluster.answer

    def away_for_a_moment(request):
        if request.path.endswith("tokens/check") and len(refused) < 2:
            refused.append(request)
            cluster.kubernetes.clear()
        else:
            cluster.kubernetes.set()
        return answer(request)

    monkeypatch.setattr(cluster, "answer", away_for_a_moment)
    assert rights(platform, bench).ok
    assert len(refused) == 2


def test_the_rehearsal_blames_a_token_that_is_refused_again_and_names_the_other_cause(bench, platform, cluster):
    cluster.tokens.clear()
    found = rights(platform, bench)
    assert found.blocks
    assert "does not accept the token of user ada: Your token is invalid." in found.message
    assert "Kubernetes cannot be reached" in found.message
    assert cluster.count("GET", "tokens/check") == 3


def test_a_log_in_that_is_never_answered_is_not_the_passwords_fault(bench, platform, cluster, monkeypatch):
    settings = platform.settings(password=cluster.password)
    monkeypatch.setattr(platform, "settings", lambda: settings)
    monkeypatch.setattr(rehearsal, "QUICK_TIMEOUT", (1.0, 2.0))
    cluster.kubernetes.clear()
    found = rights(platform, bench)
    cluster.kubernetes.set()
    assert "no answer within 2 s" in found.message
    assert not found.blocks

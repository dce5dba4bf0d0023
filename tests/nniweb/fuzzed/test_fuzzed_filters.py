"""Whatever is asked for in words: there is an answer, or a sentence with the place that was not understood."""

from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nniweb.experiments.models import Trial
from nniweb.experiments.trial_filter import FilterInvalid, fitting_trials

WORDS = st.sampled_from([
    "and", "or", "not", "(", ")", "in", "=", "!=", "<", "<=", ">", ">=", "~", ",", ".", "status", "FAILED", "lr", "act",
    "parameters", "parameters.lr", "final", "tag", "machine", "gpu", "duration", "started", "id", "number", "source",
    "exit_code", "message", "1", "-1", "1e400", "0x1", "99999999999999999999999", "5m", "2 days ago", "now",
    "2026-03-01", "2026-13-45", "null", "true", "\"", "'", "\"a\"", "%", "_", "\\", "--", ";", "é", "\x00", "\ud800"])
TEXTS = st.lists(WORDS, max_size=14).map(" ".join) | st.lists(WORDS, max_size=8).map("".join) | st.text(max_size=40)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS)
@example(text="(" * 5000)
@example(text="not " * 1000 + "lr = 1")
@example(text='act = "a\x00"')
@example(text="\ud800")
def test_no_filter_breaks_the_list(make_experiment: Any, make_attempt: Any, text: str) -> None:
    experiment = Trial.objects.first().experiment if Trial.objects.exists() else make_attempt(make_experiment(
        search_space={"lr": {}, "act": {}})).trial.experiment
    try:
        list(fitting_trials(Trial.objects.filter(experiment=experiment), text, experiment, timezone.now()))
    except FilterInvalid as invalid:
        place = (0 <= invalid.start <= invalid.end <= len(text), bool(str(invalid)))
    else:
        place = (True, True)
    assert place == (True, True)


@pytest.mark.parametrize("text", ["lr = 1; DROP TABLE experiments_trial", "\x00", "\ud800 = 1", "(" * 5000,
                                  "act = '%' or 1 = 1 --"])
def test_over_rest_it_is_an_answer_too(admin: Any, client: Any, make_attempt: Any, text: str) -> None:
    experiment = make_attempt().trial.experiment
    client.force_login(admin)
    answer = client.get(f"/api/v1/experiments/{experiment.public_id}/trials/",
                        {"filter": text.encode("utf-8", "surrogatepass")})
    assert answer.status_code in (200, 400)

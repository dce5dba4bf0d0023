"""docs/migrate-from-nni.md has a line for everything that people did with NNI's tools."""

import re
from pathlib import Path

import pytest

from nniweb.nniapi.urls import urlpatterns

PAGE = (Path(__file__).parents[1] / "docs" / "migrate-from-nni.md").read_text()
#: Of nnictl 1, 2 and 3.
VERBS = {
    "create": [], "resume": [], "view": [], "stop": [], "top": [], "ss_gen": [], "hello": [], "package": [],
    "jupyter-extension": [], "--version": [], "update": ["searchspace", "concurrency", "duration", "trialnum"],
    "trial": ["ls", "kill", "codegen"],
    "experiment": ["show", "status", "list", "delete", "import", "export", "save", "load"], "platform": ["clean"],
    "webui": ["url", "nas"], "config": ["show"], "log": ["stdout", "stderr", "trial"],
    "algo": ["register", "unregister", "show", "list"], "tensorboard": ["start", "stop"],
    "trainingservice": ["register", "unregister", "list"]}


def said_of(verb: str) -> list[str]:
    """The words after a verb in the first column of the table."""
    table = PAGE[PAGE.index("| nnictl | here |"):]
    columns = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", table[:table.index("\n\n")], re.MULTILINE)
    found = []
    for cell in columns:
        group = ""
        for part in cell.split(", "):
            word, _, rest = part.partition(" ")
            if word in VERBS and (rest or word not in VERBS.get(group, [])):
                group, part = word, rest
            if group == verb:
                found.append(part)
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_of_nnictl_is_answered(verb: str) -> None:
    said = said_of(verb)
    assert said, f"no line for {verb}"
    assert set(VERBS[verb]) <= set(said)


#: Of NNI's Experiment in Python, 2 and 3.
METHODS = (
    "run", "start", "stop", "connect", "view", "resume", "get_status", "get_trial_job", "list_trial_jobs",
    "export_data", "get_job_metrics", "get_job_statistics", "get_experiment_profile", "get_experiment_metadata",
    "get_all_experiments_metadata", "update_trial_concurrency", "update_max_trial_number",
    "update_max_experiment_duration", "update_search_space")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_nnis_experiment_has_its_line(method: str) -> None:
    table = PAGE[PAGE.index("| method of NNI's `Experiment` | here |"):]
    assert re.search(rf"^\|[^|]*`{method}`", table[:table.index("\n\n")], re.MULTILINE)


@pytest.mark.parametrize("call", sorted({str(pattern.pattern).split("/")[0].split("<")[0] for pattern in urlpatterns}
                                        - {""}))
def test_every_call_of_nnis_interface_is_said_to_be_answered_or_refused(call: str) -> None:
    assert call.removesuffix("-tasks") in PAGE[PAGE.index("Answered as NNI answers"):]

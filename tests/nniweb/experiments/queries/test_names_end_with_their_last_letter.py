"""A pattern's ``$`` is also the place before a line's end: what is checked ends with its last letter."""

import re
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from rest_framework import serializers

from nniweb.documents.clusters import ClusterNameField
from nniweb.experiments.models import User
from nniweb.experiments.models.account import OS_USERS
from nniweb.experiments.queries.named_trials import trials_of_jobs

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize("names", ["alice\n", "*\n", "\n", "alice, bob\n"])
def test_users_of_the_machine_are_refused_with_a_line_end(names: str) -> None:
    OS_USERS(names.strip())
    with pytest.raises(ValidationError):
        OS_USERS(names)


def test_a_clusters_name_is_refused_with_a_line_end() -> None:
    field = ClusterNameField(trim_whitespace=False)
    assert field.run_validation("lab") == "lab"
    with pytest.raises(serializers.ValidationError):
        field.run_validation("lab\n")


def test_a_jobs_name_with_a_line_end_is_nobodys(make_attempt, admin: User) -> None:  # type: ignore[no-untyped-def]
    trial = make_attempt().trial
    assert [row["job"] for row in trials_of_jobs([trial.public_id, f"{trial.public_id}\n"], admin)] == [trial.public_id]


def test_no_other_check_uses_the_dollar_in_python() -> None:
    """pydantic's ``pattern`` is another engine, in which it is the end alone."""
    asked = re.compile(r"(?:re\.(?:compile|match|search)|RegexValidator|RegexField)\([^\n]*\$[\"']"
                       r"|^\s*r\"[^\"]*\$\",$", re.MULTILINE)
    found = {str(path.relative_to(ROOT)): match[0] for package in ("nniweb", "trainingservice", "trialkeeper")
             for path in sorted((ROOT / package).rglob("*.py")) for match in asked.finditer(path.read_text())}
    assert found.keys() <= {
        "trainingservice/slurm/commands.py",  # looks for a line in what scontrol prints
        "nniweb/api/schema.py", "nniweb/experiments/config/yaml_positions.py"}, found

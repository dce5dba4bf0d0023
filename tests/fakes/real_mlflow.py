"""MLflow's own client, in virtual environments of its own: ``mlflow-skinny`` has it, and little else."""

from pathlib import Path

from tests.fakes.own_environments import python_with

#: A release of each major version.
VERSIONS = ("3.17.2", "2.22.0")


def mlflow_python(version: str = VERSIONS[0]) -> Path:
    """The interpreter of an environment with this version. Skips the test where there can be none."""
    return python_with("mlflow", version, [[f"mlflow-skinny=={version}"]], "mlflow-skinny")

"""Secrets are sealed, and sealed anew with a new key by a command."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import models

from nniweb.experiments.models import AuditEntry, ClusterMetadata, Experiment
from nniweb.experiments.secrets import sealing
from nniweb.experiments.secrets.key_rotation import sealed_columns
from nniweb.experiments.secrets.sealing import CannotOpen, SealedField, seal, unseal
from nniweb.experiments.sql.exact_text import ExactTextField
from nniweb.storage import data_folder


@pytest.fixture(autouse=True)
def own_keys(settings: Any, tmp_path: Path) -> None:
    settings.DATA_FOLDER, settings.SEAL_KEYS = tmp_path, []


@pytest.fixture
def secrets(make_experiment) -> tuple[ClusterMetadata, Experiment]:
    """A secret of a cluster and one of an experiment."""
    experiment = make_experiment(code_git_token=seal("token of a repository"))
    return ClusterMetadata.objects.create(cluster=experiment.cluster, key="password",
                                          sealed_value=seal("open sesame")), experiment


def rotate(*options: str) -> str:
    output = io.StringIO()
    call_command("rotate-keys", *options, stdout=output)
    return output.getvalue()


def opened(secrets: tuple[ClusterMetadata, Experiment]) -> list[str]:
    for row in secrets:
        row.refresh_from_db()
    return [unseal(secrets[0].sealed_value), unseal(secrets[1].code_git_token)]


def test_all_secrets_are_sealed_with_a_new_key_and_the_old_one_opens_nothing_more(secrets, tmp_path: Path) -> None:
    [old] = sealing.current_keys()
    assert "2 secret(s) are encrypted with the newest key; 2 of them were encrypted again" in rotate("--remove-old")
    [new] = sealing.current_keys()
    assert new != old
    assert (tmp_path / "keys" / "seal_keys").stat().st_mode & 0o777 == 0o600
    assert opened(secrets) == ["open sesame", "token of a repository"]
    for sealed in (secrets[0].sealed_value, secrets[1].code_git_token):
        Fernet(new).decrypt(bytes(sealed))
    assert AuditEntry.objects.get(action="keys.rotate").details["sealed_anew"] == 2


def test_without_being_told_so_old_keys_are_kept_so_that_a_server_that_seals_now_loses_nothing(secrets) -> None:
    [old] = sealing.current_keys()
    late = Fernet(old).encrypt(b"sealed a moment ago by a server that runs")
    rotate()
    assert sealing.current_keys()[1:] == [old]
    assert unseal(late) == "sealed a moment ago by a server that runs"
    assert opened(secrets) == ["open sesame", "token of a repository"]


def test_a_secret_that_no_key_opens_is_named_and_the_old_keys_are_kept(secrets) -> None:
    [old] = sealing.current_keys()
    ClusterMetadata.objects.filter(pk=secrets[0].pk).update(sealed_value=Fernet(Fernet.generate_key()).encrypt(b"x"))
    with pytest.raises(CommandError, match=rf"experiments_clustermetadata\.sealed_value of row {secrets[0].pk}"):
        rotate("--remove-old")
    assert old in sealing.current_keys()
    secrets[1].refresh_from_db()
    assert unseal(secrets[1].code_git_token) == "token of a repository"


def test_keys_from_the_environment_are_used_and_never_changed(secrets, settings: Any) -> None:
    new, [old] = Fernet.generate_key().decode(), sealing.current_keys()
    settings.SEAL_KEYS = [new, old]
    assert "The other keys in NNIWEB_SEAL_KEYS are no longer needed" in rotate()
    settings.SEAL_KEYS = [new]
    assert opened(secrets) == ["open sesame", "token of a repository"]
    assert "put a new key and a comma in front" in rotate()
    with pytest.raises(CommandError, match="old keys are removed there"):
        rotate("--remove-old")
    settings.SEAL_KEYS = [old]
    with pytest.raises(CannotOpen):
        opened(secrets)


def test_every_column_of_bytes_is_sealed_or_known_to_hold_no_secret() -> None:
    plain = {(model._meta.label, column.name) for model in apps.get_models()
             for column in model._meta.local_concrete_fields
             if isinstance(column, models.BinaryField) and not isinstance(column, SealedField | ExactTextField)}
    assert plain == {("experiments.TrialOutput", "data")}
    assert {(model._meta.label, column) for model, column in sealed_columns()} >= {
        ("experiments.ClusterMetadata", "sealed_value"), ("experiments.Experiment", "code_git_token")}


def test_the_file_of_keys_is_replaced_as_a_whole(tmp_path: Path) -> None:
    data_folder.write_seal_keys(tmp_path, sealing.current_keys() + ["another"])
    assert sealing.current_keys()[1] == "another"
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["seal_keys"]

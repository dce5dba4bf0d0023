"""A platform that knows secrets and runs nothing."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, SecretStr

from trainingservice.base import RehearsalFinding, TrainingService
from trainingservice.cluster_settings import ClusterSettings, SettingsModel, TrialOptions
from trainingservice.errors import InvalidMetadata, TemporaryError


class Door(SettingsModel):
    host: str
    port: int = Field(22, ge=1, le=65535)
    password: SecretStr | None = None


class VaultSettings(ClusterSettings):
    platform_name: ClassVar[str] = "vault"
    keeps_secrets: ClassVar[frozenset[str]] = frozenset({"doors"})
    fields_of_checks: ClassVar[Mapping[str, str]] = {"connection": "token", "door": "doors[].port"}
    doors: list[Door] = []
    address: str
    token: SecretStr | None = None


class VaultOptions(TrialOptions):
    v1_fields: ClassVar[Mapping[str, str]] = {"trial.image": "image"}

    image: str = "debian"


def _never(self: TrainingService, *args: Any, **kwargs: Any) -> Any:
    raise AssertionError("nothing runs in the vault")


class VaultTrainingService(TrainingService):
    platform = "vault"
    settings_model = VaultSettings
    options_model = VaultOptions
    needs_public_url = False
    metadata_keys: ClassVar[dict[str, str]] = {"key_file": "content of the key", "note": "any text"}
    secret_metadata_keys = frozenset({"key_file"})
    metadata_changeable_while_running = frozenset({"note"})
    list_trial_jobs = get_trial_job = submit_trial_job = update_trial_job = cancel_trial_job = _never
    run = resume_trial_jobs = clean_up_experiment = _never
    is_multi_phase_job_supported = False

    def set_cluster_metadata(self, key: str, value: str) -> None:
        if value == "wrong":
            raise InvalidMetadata(key, "is wrong; give the right one.")

    def rehearse(self, quick: bool = False, options: TrialOptions | None = None) -> list[RehearsalFinding]:
        settings = self.settings
        assert isinstance(settings, VaultSettings)
        if settings.address == "away":
            raise TemporaryError("The vault does not answer.")
        opens = settings.token is not None and settings.token.get_secret_value() == "sesame"
        return [RehearsalFinding("connection", opens, "It opens." if opens else
                                 f"The token is refused at {settings.address}; set another.")]

    def clean_up(self) -> None:
        pass

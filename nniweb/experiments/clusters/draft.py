"""A cluster as it would be after a change, not stored: what is checked and tested before it is saved."""

import hmac
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from django.core import signing
from django.utils.crypto import salted_hmac

from nniweb.experiments.clusters.editing import read_changed_settings, read_settings
from nniweb.experiments.clusters.service_factory import service_builder, state_folder
from nniweb.experiments.config.platform_section import PlatformSection
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Cluster
from nniweb.experiments.secrets.sealing import unseal
from trainingservice.base import RehearsalFinding, TrainingService
from trainingservice.cluster_settings import without_secrets
from trainingservice.errors import TrainingServiceError
from trainingservice.platforms import load_platform

#: Seconds for which a test of a draft counts as one of the cluster that is made of it.
TESTED_FOR = 3600
_SALT = "nniweb.cluster.tested"


@dataclass(frozen=True)
class Draft:
    """Checked settings with their secrets, and the cluster that they would make."""

    section: PlatformSection
    #: A row that is never stored.
    row: Cluster
    #: The cluster whose settings these would become; None for a new one.
    stored: Cluster | None = None
    #: Changes of the platform's own metadata: key -> value, None to remove it.
    metadata: Mapping[str, str | None] = field(default_factory=dict)

    def service_builder(self) -> Callable[[], TrainingService]:
        """As ``service_factory.service_builder``. Raises what that raises."""
        own = load_platform(self.section.platform).metadata_keys
        rows = self.stored.metadata.all() if self.stored is not None else []
        texts: dict[str, str | None] = {
            row.key: unseal(row.sealed_value) if row.sealed_value is not None else row.value
            for row in rows if row.key in own}
        texts.update(self.metadata)
        kept = {key: text for key, text in texts.items() if text is not None}
        return service_builder(self.row, replacing={**kept, **self.section.secrets})

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """While a service is made of it. What that kept on this machine for a new cluster is removed at the end."""
        try:
            yield
        finally:
            if self.stored is None:
                shutil.rmtree(state_folder(self.row), ignore_errors=True)


def new_draft(platform: str, settings: dict[str, Any]) -> Draft:
    """Of a cluster to set up. Raises ConfigInvalid."""
    section = read_settings(platform, settings)
    return Draft(section, Cluster(platform=section.platform, settings=without_secrets(section.settings)))


def changed_draft(cluster: Cluster, settings: dict[str, Any]) -> Draft:
    """Of a cluster with other settings; secrets stay as ``editing.change_settings`` has it.

    Raises ConfigInvalid and CannotOpen, and Refused where the platform is gone.
    """
    try:
        section = read_changed_settings(cluster, settings)
    except TrainingServiceError as error:
        raise Refused(str(error), "settings") from None
    # the same id: what the service keeps on this machine, such as host keys, is the stored cluster's
    row = Cluster(public_id=cluster.public_id, platform=section.platform, settings=without_secrets(section.settings))
    return Draft(section, row, cluster)


def sign_test(section: PlatformSection, findings: Sequence[RehearsalFinding]) -> str:
    """A text by which whoever saves these settings within TESTED_FOR shows what their test found."""
    return signing.dumps({"of": _print_of(section), "found": [asdict(finding) for finding in findings]}, salt=_SALT,
                         compress=True)


def tested_findings(tested: str, section: PlatformSection) -> list[dict[str, Any]] | None:
    """What a signed test found, None where it is too old, or of other settings."""
    try:
        test = signing.loads(tested, salt=_SALT, max_age=TESTED_FOR)
    except signing.BadSignature:
        return None
    found: list[dict[str, Any]] = test["found"]
    return found if hmac.compare_digest(test["of"], _print_of(section)) else None


def _print_of(section: PlatformSection) -> str:
    whole = json.dumps([section.platform, without_secrets(section.settings), dict(section.secrets)], sort_keys=True)
    return salted_hmac(_SALT, whole, algorithm="sha256").hexdigest()

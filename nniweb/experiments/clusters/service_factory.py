"""Builds the TrainingService object of a cluster, for the worker that drives it and for rehearsals."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from django.conf import settings

from nniweb.experiments.clusters import addresses
from nniweb.experiments.clusters.gpu_book import AttemptGpuBook
from nniweb.experiments.config.platform_section import parse_stored_section
from nniweb.experiments.models import Cluster
from nniweb.experiments.secrets.sealing import unseal
from nniweb.storage.data_folder import prepare
from trainingservice.base import ServiceContext, TrainingService
from trainingservice.gpus.gpu_slots import GpuBook
from trainingservice.platforms import load_platform
from trainingservice.rest import ca_bundle
from trainingservice.secrets_in_use import learn


def build_service(cluster: Cluster, on_change: Callable[[str], None] = lambda job_name: None, *,
                  replacing: Mapping[str, str] | None = None, gpu_book: GpuBook | None = None) -> TrainingService:
    """A fresh service object with the cluster's settings, secrets and metadata; nothing is started.

    As ``service_builder``, and what the platform itself raises.
    """
    return service_builder(cluster, on_change, replacing=replacing, gpu_book=gpu_book)()


def service_builder(cluster: Cluster, on_change: Callable[[str], None] = lambda job_name: None, *,
                    replacing: Mapping[str, str] | None = None, gpu_book: GpuBook | None = None
                    ) -> Callable[[], TrainingService]:
    """What builds the object: the platform's own part of it, which may hang, and which needs no database.

    The metadata rows hold the values of the platform's own metadata keys, the secrets of its
    settings under their paths (``machineList[0].password``), and what NNI's keys say besides settings
    (the object gets it with the settings, as NNI's services did); ``replacing`` holds values that are
    tried instead of stored ones (all of them, for a cluster that is not stored yet). ``gpu_book`` is
    where it books GPUs (default: the rows, for whoever asks). Raises
    trainingservice's errors (a missing library, wrong metadata), CannotOpen for a secret sealed
    with a lost key, ConfigInvalid for settings that no longer fit the platform.
    """
    platform = load_platform(cluster.platform)
    rows = cluster.metadata.all() if cluster.pk is not None else []
    texts = {row.key: unseal(row.sealed_value) if row.sealed_value is not None else row.value
             for row in rows if row.key not in (replacing or {})}
    of_nni = platform.nni_metadata()
    texts = {key: of_nni[key].shown(cluster.settings, json.loads(text)) if key in of_nni else text
             for key, text in texts.items()}
    texts.update(replacing or {})
    secrets = {key: text for key, text in texts.items() if key not in platform.metadata_keys and key not in of_nni}
    for secret in secrets.values():  # also those of a launch, which are not stored yet
        learn(secret)
    section = parse_stored_section({"platform": cluster.platform, **cluster.settings}, secrets)
    folder = prepare(state_folder(cluster))
    ca_bundle.trust(settings.CA_FILE)
    context = ServiceContext(
        cluster_id=cluster.public_id, state_folder=folder, private_folder=Path(settings.DATA_FOLDER),
        installation=settings.INSTALLATION_ID, gpu_book=gpu_book or AttemptGpuBook(), on_change=on_change,
        relay_urls=addresses.server_urls, public_urls=addresses.keeper_urls, ca_file=settings.CA_FILE)

    def build() -> TrainingService:
        service = platform(section.settings, context)
        for key in texts.keys() - secrets.keys():
            service.set_cluster_metadata(key, texts[key])
        return service

    return build


def state_folder(cluster: Cluster) -> Path:
    """Where the cluster's service keeps its own files on this machine."""
    return Path(settings.DATA_FOLDER) / "clusters" / cluster.public_id

"""A server whose certificate is of a private authority: keepers on every platform are handed it, and call home."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.under_test import JobsUnderTest
from tests.fakes.slurm_cluster import SlurmCluster
from tests.fakes.ssh_machine import SshMachine
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.tls_certificate import make_certificate
from tests.trainingservice.conformance.test_conformance_azureml import AzureMlUnderTest
from tests.trainingservice.conformance.test_conformance_azureml import make_platform as make_platform
from tests.trainingservice.conformance.test_conformance_command import CommandUnderTest
from tests.trainingservice.conformance.test_conformance_dlts import DltsUnderTest
from tests.trainingservice.conformance.test_conformance_openpai import OpenPaiUnderTest, WithoutStorage
from tests.trainingservice.conformance.test_conformance_ray import RayUnderTest
from tests.trainingservice.conformance.test_conformance_remote import RemoteUnderTest
from tests.trainingservice.slurm.slurm_under_test import SlurmUnderTest
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench, PlatformUnderTest
from trainingservice.trial_job import KeeperAccess

CODE = {"trial.py": "print('the code is here')"}


@pytest.fixture
def behind_tls(tmp_path: Path) -> Iterator[Callable[[KeeperAccess], KeeperAccess]]:
    """The same way home, by an address that speaks TLS. Its certificate is nobody's whom a machine knows."""
    context, authority = make_certificate(tmp_path / "tls")
    # as a person may have it: with other text beside the certificate, which has no business in a script
    authority.write_text("Subject: <% $oddly $(named) %>\n" + authority.read_text())
    proxies: list[TcpProxy] = []

    def front(access: KeeperAccess) -> KeeperAccess:
        server = urlsplit(access.urls[0])
        assert server.hostname is not None
        assert server.port is not None
        proxies.append(TcpProxy((server.hostname, server.port), context))
        return replace(access, urls=(f"https://127.0.0.1:{proxies[-1].port}",), ca_file=authority)

    yield front
    for proxy in proxies:
        assert proxy.passed, "reports went through it"
        proxy.close()


def a_trial_reports(platform: PlatformUnderTest, folder: Path, behind_tls: Callable[[KeeperAccess], KeeperAccess]
                    ) -> None:
    with KeeperReceiver(installation="test", folder=folder / "receiver") as receiver:
        bench = Bench(platform, receiver, folder)
        try:
            service = bench.open_service()
            form = bench.form("python3 trial.py", code=bench.code(CODE))
            form = replace(form, keeper=behind_tls(form.keeper))
            service.submit_trial_job(form)
            bench.wait_for_end(service, form)
            assert bench.output(form) == "the code is here\n"
        finally:
            bench.close()


@pytest.mark.parametrize("kind", [OpenPaiUnderTest, WithoutStorage])
def test_a_keeper_on_openpai_trusts_the_servers_authority(tmp_path, behind_tls, kind) -> None:
    platform = kind(tmp_path / "platform")
    try:
        a_trial_reports(platform, tmp_path, behind_tls)
    finally:
        platform.cluster.end()


def test_a_keeper_on_dlts_trusts_the_servers_authority(tmp_path, behind_tls) -> None:
    platform = DltsUnderTest(tmp_path / "platform")
    try:
        a_trial_reports(platform, tmp_path, behind_tls)
    finally:
        platform.dashboard.end()


def test_a_keeper_on_ray_trusts_the_servers_authority(tmp_path, behind_tls) -> None:
    platform = RayUnderTest(tmp_path / "platform")
    try:
        a_trial_reports(platform, tmp_path, behind_tls)
    finally:
        platform.head.end()


@pytest.mark.slow  # the vendor's SDK takes seconds to load
def test_a_keeper_on_azureml_trusts_the_servers_authority(tmp_path, behind_tls, make_platform) -> None:
    a_trial_reports(make_platform(AzureMlUnderTest), tmp_path, behind_tls)


def test_a_keeper_on_kubernetes_trusts_the_servers_authority(tmp_path, behind_tls) -> None:
    with KubernetesApiDouble(tmp_path / "cluster") as cluster:
        a_trial_reports(JobsUnderTest(tmp_path / "platform", cluster), tmp_path, behind_tls)


@pytest.mark.slow
def test_a_keeper_on_slurm_trusts_the_servers_authority(tmp_path, behind_tls, monkeypatch) -> None:
    with SlurmCluster() as cluster:
        monkeypatch.setenv("SLURM_CONF", str(cluster.config))
        a_trial_reports(SlurmUnderTest(tmp_path / "platform", cluster), tmp_path, behind_tls)


def test_a_keeper_of_a_scheduler_trusts_the_servers_authority(tmp_path, behind_tls) -> None:
    a_trial_reports(CommandUnderTest(tmp_path / "platform"), tmp_path, behind_tls)


def test_a_keeper_on_a_remote_machine_trusts_the_servers_authority(tmp_path, tmp_path_factory, behind_tls) -> None:
    with SshMachine(tmp_path_factory.mktemp("machine")) as machine:
        a_trial_reports(RemoteUnderTest(machine), tmp_path, behind_tls)

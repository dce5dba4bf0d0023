"""The services of docs/deploy/containers/compose.yml, as somebody has them who follows its README with podman-compose.

The images that the file names come from tests.deploy.our_image and tests.deploy.images_of_servers.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.container_engine import ContainerEngine
from tests.fakes.own_environments import python_with
from tests.fakes.tls_certificate import make_certificate
from tests.installed.wheel_build import ROOT
from tests.trialkeeper.keeper_run import wait_until

VERSION = "1.6.0"
HOST = "nni.example.org"
CONTAINERS = "docs/deploy/containers"
#: What the network of the containers asks for names; podman starts it, from one of these folders.
NAME_SERVER, ITS_FOLDERS = "aardvark-dns", "/usr/lib/podman:/usr/libexec/podman:/usr/local/libexec/podman"
PATIENCE = 600.0
#: As the README has it for podman-compose: podman cannot start what depends on nniweb-migrate, which has ended.
UP = ("up", "--detach", "--no-deps")
#: What stands for the name server of people's networks, and for an authority that all trust.
MORE = f"""
x-ours: &ours
  environment: {{NNIWEB_CA_FILE: /etc/authority.pem}}
  volumes: ["./tls/certificate.pem:/etc/authority.pem:ro"]
services:
  nniweb-web: *ours
  nniweb-worker: *ours
  nniweb-proxy: {{networks: {{default: {{aliases: [{HOST}]}}}}}}
"""


class Composition:
    """Its files are below ``folder``, with secrets and a certificate of their own. It starts nothing."""

    def __init__(self, engine: ContainerEngine, folder: Path) -> None:
        if shutil.which(NAME_SERVER, path=ITS_FOLDERS) is None:
            pytest.skip(f"no {NAME_SERVER} was found: apt-get install {NAME_SERVER}")
        self.engine = engine
        self.folder = folder / CONTAINERS
        self._program = python_with("podman_compose", VERSION, [[f"podman-compose=={VERSION}"]], "podman-compose")
        for name in (f"{CONTAINERS}/compose.yml", f"{CONTAINERS}/nginx.conf", "docs/deploy/nginx/nniweb-proxy.conf"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        subprocess.run([sys.executable, str(ROOT / "docs/deploy/kubernetes/several/make_secrets.py"),
                        str(self.folder / "secrets")], check=True)
        subprocess.run(["chown", "-R", "1000", str(self.folder / "secrets")], check=True)
        _, self.authority = make_certificate(folder / "certificate", HOST)
        (self.folder / "tls").mkdir()
        shutil.copy(self.authority, self.folder / "tls" / "certificate.pem")
        shutil.copy(folder / "certificate" / "key.pem", self.folder / "tls")
        (self.folder / "more.yml").write_text(MORE)
        self.document: dict[str, Any] = yaml.safe_load((self.folder / "compose.yml").read_text())

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A command of podman-compose."""
        files = [part for name in ("compose.yml", "more.yml") for part in ("--file", self.folder / name)]
        return self.engine.in_network(self._program, "-m", "podman_compose", *files, *arguments, check=check,
                                      more={"NNIWEB_PUBLIC_URL": f"https://{HOST}"})

    def containers(self, service: str) -> list[str]:
        """Their names, also of those that have ended."""
        return sorted(self.engine.podman("ps", "--all", "--format", "{{.Names}}", "--filter",
                                         f"label=com.docker.compose.service={service}").stdout.split())

    def within(self, service: str, *command: str) -> str:
        """What a program says in the first container of a service."""
        return self.engine.podman("exec", self.containers(service)[0], *command).stdout

    def get(self, path: str, *headers: str) -> tuple[int, str]:
        """Through the proxy, as people come to it."""
        return self.engine.get(f"https://127.0.0.1{path}", [f"Host: {HOST}", *headers], authority=self.authority)

    def at_own_address(self, container: str, port: int, path: str, *headers: str) -> tuple[int, str]:
        """Past the proxy, in the network of the containers."""
        [network] = self.engine.inspect("container", container)["NetworkSettings"]["Networks"].values()
        return self.engine.get(f"http://{network['IPAddress']}:{port}{path}", headers)

    def rows(self, path: str, token: str) -> list[dict[str, Any]]:
        """Of a list of the REST interface; empty while it does not answer."""
        status, body = self.get(f"/api/v1/{path}", f"Authorization: Token {token}")
        return list(json.loads(body)["results"]) if status == 200 else []

    def is_healthy(self, container: str) -> bool:
        """By the health check of the file. systemd, which podman lets run them, is not in the namespace."""
        return self.engine.podman("healthcheck", "run", container, check=False).returncode == 0

    def wait_until_ready(self) -> None:
        wait_until(lambda: self.get("/readyz")[0] == 200, PATIENCE, "the proxy leads to a web process that is ready")
        for service in ("nniweb-web", "nniweb-worker", "nniweb-postgresql"):
            for name in self.containers(service):
                wait_until(lambda name=name: self.is_healthy(name), PATIENCE, f"{name} is healthy")

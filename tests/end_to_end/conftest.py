"""Servers for the tests of this folder."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.browser import one_browser
from tests.end_to_end.running_server import RunningServer


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """After the last test with a browser, or later, where the tests in between go on beside it."""
    try:
        return (yield)
    finally:
        if one_browser.is_in_the_way_of(nextitem):
            one_browser.close()


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[Callable[..., RunningServer]]:
    """Makes servers that are not started yet: ``make_server(env={...}, name="data")``; all are closed in the end."""
    servers: list[RunningServer] = []

    def make(env: dict[str, str] | None = None, name: str = "data", **more: bool) -> RunningServer:
        servers.append(RunningServer(tmp_path / name, env, **more))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def running_server(make_server: Callable[..., RunningServer]) -> RunningServer:
    """A server that answers."""
    return make_server().start()


@pytest.fixture
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own of 16 MiB (or of the fixture's parameter), which a test can fill. Root only."""
    if os.geteuid() != 0:
        pytest.skip("needs root: machines of their own, other users, small disks")
    disk = tmp_path / "disk"
    disk.mkdir()
    size = f"size={getattr(request, 'param', 16)}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture
def server_on_small_disk(small_disk: Path, make_server: Callable[..., RunningServer], tmp_path: Path) -> RunningServer:
    """Not started yet. Trials and the server's log have room elsewhere: only the server's disk can be filled."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    data = small_disk / "data"
    data.mkdir(mode=0o700)
    (data / "clusters").symlink_to(elsewhere)
    server = make_server({"NNIWEB_LOW_SPACE_MB": "0"}, name="disk/data")
    server.log_file = tmp_path / "server.log"
    return server

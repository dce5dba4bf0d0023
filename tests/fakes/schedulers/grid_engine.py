"""A real Grid Engine on loopback: Debian's qmaster and execd, started by a test and ended with it.

    with GridEngine() as engine:
        for name, value in engine.variables.items():     # what Grid Engine's commands go by
            monkeypatch.setenv(name, value)

It has the parallel environment ``smp`` and the resource ``gpu``, as the example in docs/platforms/command.md asks for
them. Its daemons run as root, so only root can have them; they keep everything below one folder of their own. The
host has more slots than this machine has CPUs: trials of tests sleep.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Self

import pytest

from tests.fakes.real_service import RealService
from tests.fakes.schedulers.daemons import Daemons, are_there
from tests.fakes.ssh_machine import free_port

_PROGRAMS = ("sge_qmaster", "sge_execd", "qsub", "qstat", "qdel", "qconf")
NO_GRID_ENGINE = "no Grid Engine: apt-get install gridengine-master gridengine-exec gridengine-client"
NOT_ROOT = "needs root: Grid Engine's daemons"
#: Where Debian has what every installation shares.
_SHARED = Path("/var/lib/gridengine")
_GIVEN = Path("/usr/share/gridengine")
_TOOLS = Path("/usr/lib/gridengine")
_CELL = "default"
_GPU = "gpu                 gpu        INT       <=    YES         YES        0        0\n"


def needs_grid_engine() -> None:
    if not are_there(*_PROGRAMS):
        pytest.skip(NO_GRID_ENGINE)
    if os.geteuid() != 0:
        pytest.skip(NOT_ROOT)


class GridEngine(RealService):
    """``start`` returns when the host takes jobs; ``stop`` ends all jobs and the daemons, and removes the folder."""

    def __init__(self, *, slots: int = 64, gpus: int = 8) -> None:
        needs_grid_engine()
        self.folder = Path(tempfile.mkdtemp(prefix="nniweb-sge-"))
        self.folder.chmod(0o755)
        self.host = socket.gethostname().partition(".")[0]
        self._slots, self._gpus = slots, gpus
        self.variables = {"SGE_ROOT": str(self.folder / "root"), "SGE_CELL": _CELL,
                          "SGE_QMASTER_PORT": str(free_port()), "SGE_EXECD_PORT": str(free_port())}
        #: SGE_ND: in the foreground.
        self._daemons = Daemons(self.folder, {**self.variables, "SGE_ND": "1"})
        self.command, self.wait = self._daemons.command, self._daemons.wait

    def start(self) -> Self:
        self._make_cell()
        self.start_master()
        for kind in ("-ah", "-as"):  # may administer, may submit
            self.command("qconf", kind, self.host, check=False)  # the master's host may administer already
        self._configure()
        self._daemons.run("sge_execd")
        self.wait("the host takes jobs", self._takes_jobs)
        return self

    def start_master(self) -> None:
        self._daemons.run("sge_qmaster")
        self.wait("the master answers", lambda: self.command("qconf", "-sh", check=False))

    def stop_master(self) -> None:
        self._daemons.end("sge_qmaster")

    def stop(self) -> None:
        try:
            if self.command("qstat", "-u", "*", check=False):
                self.command("qdel", "-f", "-u", "*", check=False)
                self.wait("all jobs have ended", lambda: not self.command("qstat", "-u", "*", check=False))
        finally:
            self._daemons.end_all()
            shutil.rmtree(self.folder, ignore_errors=True)

    def job_names(self) -> list[str]:
        """Names of jobs that have not ended."""
        return re.findall(r"Full jobname: +(\S+)", self.command("qstat", "-r", "-u", "*"))

    # --- what Debian's init_cluster does, elsewhere ----------------------------------------

    def _make_cell(self) -> None:
        root = Path(self.variables["SGE_ROOT"])
        common = root / _CELL / "common"
        common.mkdir(parents=True)
        for folder in ("spool/qmaster/job_scripts", "spool/spooldb", "spool/execd"):
            (root / folder).mkdir(parents=True)
        for name in ("bin", "lib", "util", "utilbin"):
            (root / name).symlink_to(_SHARED / name)
        (common / "act_qmaster").write_text(f"{self.host}\n")
        # whoever calls from loopback is this host
        (common / "host_aliases").write_text(f"{self.host} localhost\n")
        (common / "bootstrap").write_text(self._ours((_GIVEN / "default-bootstrap").read_text(), admin_user="root"))
        configuration = self.folder / "configuration"
        configuration.write_text(self._ours(
            (_GIVEN / "default-configuration").read_text(), min_uid="0", min_gid="0", administrator_mail="none",
            load_report_time="00:00:01"))
        self.command(str(_TOOLS / "spoolinit"), "berkeleydb", "libspoolb", str(root / "spool" / "spooldb"), "init")
        for what, value in (("configuration", str(configuration)), ("managers", "root"),
                            ("complexes", str(_GIVEN / "util" / "resources" / "centry")),
                            ("usersets", str(_GIVEN / "util" / "resources" / "usersets"))):
            self.command(str(_TOOLS / "spooldefaults"), what, value)

    def _ours(self, text: str, **settings: str) -> str:
        """A file of settings with its spool below our folder, and some settings changed."""
        text = text.replace("/var/spool/gridengine", f"{self.variables['SGE_ROOT']}/spool")
        return _with(text, **settings)

    def _configure(self) -> None:
        """Its resources, the queue, and a scheduler that begins jobs at once."""
        self._put("-Mc", self.command("qconf", "-sc") + _GPU)
        self._put("-Ap", (_GIVEN / "util" / "resources" / "pe" / "smp").read_text())
        self._put("-Msconf", _with(self.command("qconf", "-ssconf"), schedule_interval="0:0:1", flush_submit_sec="1",
                                   flush_finish_sec="1", job_load_adjustments="NONE"))
        self._put("-Ae", f"hostname {self.host}\nload_scaling NONE\ncomplex_values gpu={self._gpus}\nuser_lists NONE\n"
                         "xuser_lists NONE\nprojects NONE\nxprojects NONE\nusage_scaling NONE\n"
                         "report_variables NONE\n")
        self._put("-Aq", _with(self.command("qconf", "-sq"), qname="all.q", hostlist=self.host, slots=str(self._slots),
                               pe_list="smp", load_thresholds="NONE"))

    def _put(self, option: str, text: str) -> None:
        path = self.folder / "given"
        path.write_text(text)
        self.command("qconf", option, str(path))

    def _takes_jobs(self) -> bool:
        """A queue instance of which nothing is said (``au``: no word from its host) takes jobs."""
        lines = self.command("qstat", "-f", check=False).splitlines()
        return any(line.startswith("all.q@") and len(line.split()) == 5 and "-NA-" not in line for line in lines)


def _with(text: str, **settings: str) -> str:
    for name, value in settings.items():
        text, times = re.subn(rf"^{name}\s.*$", f"{name} {value}", text, flags=re.MULTILINE)
        assert times == 1, f"no {name} in\n{text}"
    return text

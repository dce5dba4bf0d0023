"""Makes the asset of a release, by running that release: an installation in use, which later versions must bring over.

    git worktree add /tmp/release v0.2.0 && ln -s $PWD/.venv /tmp/release/.venv      # with that release's packages
    python -m tests.upgrade_assets.make_asset /tmp/release 0.2.0

Writes ``tests/upgrade_assets/0.2.0/``: ``installation.tar.gz`` (see unpacked_asset.py) and ``backup.tar.gz``, which the
release's own ``backup`` made of the same installation. Takes a minute; leaves nothing running.
"""

from __future__ import annotations

import io
import shutil
import socket
import sqlite3
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

from tests.end_to_end.browser.led_trials import PROGRAM
from tests.end_to_end.running_server import RunningServer
from tests.upgrade_assets.unpacked_asset import ASSETS, DATABASE, HOST, LEFT_OUT, PASSWORD, ROOT, SECRET

#: More metrics than one, and a file that is kept.
_MORE = """\
nni.report_intermediate_result({"default": 0.5, "loss": 2.5})
nni.report_intermediate_result({"default": 0.75, "loss": 1.5})
pathlib.Path("result.txt").write_text("kept by the first trial")
print("a line of output")
nni.report_final_result({"default": 1.0, "loss": 0.5})
sys.exit(0)
"""
_SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}


class ReleaseServer(RunningServer):
    """The server of another checkout."""

    def __init__(self, checkout: Path, data_folder: Path) -> None:
        super().__init__(data_folder)
        self.working_directory = checkout
        self.program = (sys.executable, str(checkout / "manage.py"))


def main(checkout: Path, version: str) -> None:
    root = Path(tempfile.gettempdir()) / f"nniweb-{version}"
    root.mkdir()
    server = ReleaseServer(checkout, root / "data").start()
    try:
        _use(server, root)
        goal = ASSETS / version
        goal.mkdir(exist_ok=True)
        server.manage("backup", str(goal / "backup.tar.gz"))
        server.kill()
        server.close()
        _as_if_its_first_report_was_not_taken(server.data_folder)
        _pack(root, goal / "installation.tar.gz")
    finally:
        server.close()
        shutil.rmtree(root)
        server.log_file.unlink(missing_ok=True)


def _use(server: RunningServer, root: Path) -> None:
    for name, role in (("ann", "member"), ("bob", "viewer")):
        server.post("users/", {"username": name, "role": role})
    server.manage("shell", "-c", "from nniweb.experiments.models import User\n"
                                 f"for user in User.objects.all(): user.set_password({PASSWORD!r}); user.save()")
    server.post("groups/", {"name": "vision", "members": ["ann", "bob"]})
    server.post("clusters/", {"name": "farm", "platform": "remote", "settings": {"machineList": [
        {"host": "127.0.0.1", "port": 9, "user": "nobody", "password": SECRET}]}})
    for name in ("many", "one"):
        (root / name / "orders").mkdir(parents=True)
        first, rest = PROGRAM.split("number = 0\n")
        (root / name / "trial.py").write_text(
            f"{first}if os.environ['NNI_TRIAL_SEQ_ID'] == '0' and sys.argv[2:]:\n"
            + "".join(f"    {line}\n" for line in _MORE.splitlines()) + f"number = 0\n{rest}")
    many = _launch(server, root / "many", "many", 5, more=" with-more")
    server.wait_until(lambda: _statuses(server, many)[:1] == ["SUCCEEDED"], what="the first trial is done")
    (root / "many" / "orders" / "1-0").write_text("fail the data is broken")
    server.wait_until(lambda: _statuses(server, many)[:3] == ["SUCCEEDED", "FAILED", "RUNNING"], what="the third runs")
    [local] = [row for row in server.get_all("clusters/") if row["platform"] == "local"]
    server.patch(f"clusters/{local['id']}/", {"max_trials": 1})
    one = _launch(server, root / "one", "one", 1)
    server.wait_until(lambda: _statuses(server, one) == ["WAITING"], what="a trial waits")


def _launch(server: RunningServer, folder: Path, name: str, trials: int, more: str = "") -> str:
    return server.launch({
        "experimentName": name, "trialCommand": f"python3 trial.py {folder / 'orders'}{more}",
        "trialCodeDirectory": str(folder), "trialConcurrency": 1, "maxTrialNumber": trials, "keepFiles": ["*.txt"],
        "tuner": {"name": "TPE", "classArgs": {"seed": 1}}, "searchSpace": _SPACE,
        "trainingService": {"platform": "local"}}, folder)


def _statuses(server: RunningServer, experiment: str) -> list[str]:
    return [trial["status"] for trial in server.get_all(f"experiments/{experiment}/trials/")]


def _as_if_its_first_report_was_not_taken(data_folder: Path) -> None:
    """Whoever unpacks this can run the trial again: to its keeper the server went away just before it reported."""
    with closing(sqlite3.connect(data_folder / DATABASE)) as database, database:
        [(job,)] = database.execute(
            "SELECT attempts.job_name FROM experiments_attempt attempts JOIN experiments_trial trials "
            "ON trials.id = attempts.trial_id WHERE trials.status = 'RUNNING'").fetchall()
        database.execute("UPDATE experiments_attempt SET journal_id = '', accepted = 0 WHERE job_name = ?", [job])
        database.execute("UPDATE experiments_cluster SET pinned_host = ? WHERE pinned_host = ?",
                         [HOST, socket.gethostname()])
    [folder] = list(data_folder.glob(f"clusters/*/trials/*/{job}"))
    for path in folder.iterdir():
        if path.name not in ("job.json", "access.json"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _pack(root: Path, goal: Path) -> None:
    with tarfile.open(goal, "w:gz", compresslevel=9) as tar:
        with closing(sqlite3.connect(root / "data" / DATABASE)) as database:
            _add(tar, f"data/{DATABASE}.sql", "\n".join(database.iterdump()).encode(), root)
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            if path.is_file() and not path.is_symlink() and not any(part in name for part in LEFT_OUT):
                _add(tar, name, path.read_bytes(), root)


def _add(tar: tarfile.TarFile, name: str, content: bytes, root: Path) -> None:
    if not name.endswith(".pyz"):
        content = content.replace(str(root).encode(), ROOT.encode())
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o600
    tar.addfile(info, io.BytesIO(content))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2])

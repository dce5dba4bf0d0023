"""What the machine's people get NNI Web from, where there is no network: a repository, and packages for pip."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.deploy.debian_tree import debian_tree
from tests.deploy.our_image import fetched_packages
from tests.installed.wheel_build import PARTS, ROOT

#: Debian 13, because systemd knows ``DelegateSubgroup=`` since 254.
SUITE, PYTHON = "trixie", "3.13"
PACKAGES = ("systemd-sysv", "dbus", "procps", "openssh-server", "python3", "python3-venv", "ca-certificates",
            "postgresql", "postgresql-client", "redis-server", "nginx-light", "git", "iproute2", "curl", "sudo")
#: Of a checkout, beside what a release is built from.
MORE = ("manage.py", "docs/deploy")
#: Where the machine has them.
REPOSITORY, WHEELS, LIBRARIES = "/srv/origin", "/srv/wheels", "/srv/libraries"
_AUTHOR = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"))}
#: A change of the database that no version has.
MIGRATION = '''from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "{newest}")]
    operations = [migrations.CreateModel("NewInThisVersion", [("id", models.BigAutoField(primary_key=True))])]
'''


def debian() -> Path:
    """The tar of a small Debian with all that the README's commands need."""
    return debian_tree(PACKAGES, SUITE)


class Origin:
    """In ``folder``, new. ``release`` has the version of this checkout."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / "origin"
        self.repository.mkdir(parents=True)
        self.wheels, self.libraries = fetched_packages(PYTHON), (ROOT / "node_modules").resolve()
        skip = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
        for name in (*PARTS, *MORE):
            target = self.repository / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target, ignore=skip)
            else:
                shutil.copy(ROOT / name, target)
        self._git("init", "--quiet", "--initial-branch=main")
        self.release = self._release()

    def make_newer_release(self) -> str:
        """Version 9.9.9, which changes the database."""
        file = self.repository / "nniweb/version.py"
        file.write_text(re.sub(r'^NEXT_RELEASE = ".*"', 'NEXT_RELEASE = "9.9.9"', file.read_text(), flags=re.MULTILINE))
        migrations = self.repository / "nniweb/experiments/migrations"
        newest = sorted(migrations.glob("[0-9]*.py"))[-1].stem
        (migrations / "9999_new.py").write_text(MIGRATION.format(newest=newest))
        return self._release()

    def _release(self) -> str:
        said = re.search(r'^NEXT_RELEASE = "(.*)"', (self.repository / "nniweb/version.py").read_text(), re.MULTILINE)
        assert said is not None
        self._git("add", "--all", "--force")
        self._git("commit", "--quiet", "--message", said[1])
        self._git("tag", f"v{said[1]}")
        return said[1]

    def _git(self, *arguments: str) -> None:
        others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        subprocess.run(["git", "-c", "core.hooksPath=/dev/null", *arguments], cwd=self.repository, check=True,
                       env={**others, **_AUTHOR}, stdin=subprocess.DEVNULL)

    @property
    def shared(self) -> dict[Path, str]:
        return {self.repository: REPOSITORY, self.wheels: WHEELS, self.libraries: LIBRARIES}

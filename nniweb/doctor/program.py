"""The program itself: what Django and the platforms say of it, its browser libraries, this machine's clock."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.core import checks
from django.db.models import Max
from django.utils import timezone

from nniweb.database.database_clock import database_now
from nniweb.doctor.findings import Finding, warning, well, wrong
from nniweb.experiments.models import Worker
from nniweb.storage.own_files import COMMAND, IS_INSTALLED

#: What the pages load that npm brings.
LIBRARIES = ("echarts/echarts.min.js", "echarts/echarts.common.min.js", "swagger-ui/swagger-ui-bundle.js",
             "swagger-ui/swagger-ui.css")
#: Clocks that differ by more than this are wrong; answers take some time themselves.
SLACK = timedelta(seconds=5)
_SET_CLOCK = "Set the clock (timedatectl) and enable time synchronization (timedatectl set-ntp true, or chrony)."


def system_checks() -> Iterator[Finding]:
    """Django's checks and ours (platforms, rights of the data folder); behind TLS those of a deployment as well."""
    found = [message for message in checks.run_checks(include_deployment_checks=settings.BEHIND_TLS)
             if not message.is_silenced() and message.level >= checks.WARNING]
    for message in found:
        make = wrong if message.is_serious() else warning
        about = str(message.obj) if isinstance(message.obj, str) else "settings"
        yield make(about, message.msg, message.hint or f"{COMMAND} check reports the same ({message.id}). "
                                                       "docs/settings.md and docs/platforms describe the settings.")
    if not found:
        yield well("settings", "The system checks find nothing.")


def browser_libraries() -> Iterator[Finding]:
    """Whether the pages find the JavaScript libraries that npm installs."""
    missing = [name for name in LIBRARIES if finders.find(name) is None]
    if missing:
        yield wrong("browser libraries", f"{missing[0]} is missing, so charts and the API page are empty.",
                    "Reinstall the package: pip install --force-reinstall nniweb" if IS_INSTALLED else
                    "Install the libraries: make packages, or npm ci --omit=dev (which needs Node.js and npm).")
    else:
        yield well("browser libraries", "They are there.")


def own_clock() -> Iterator[Finding]:
    """Against the time at which this program's files were put here."""
    written = Path(__file__).stat().st_mtime
    if written > time.time() + 60:
        yield wrong("clock", f"This machine's clock shows {timezone.now():%Y-%m-%d %H:%M} UTC, which is before this "
                             "program was installed.", _SET_CLOCK)


def database_clock() -> Iterator[Finding]:
    """Ours against the database's; and the database's against what was written by it."""
    heard = Worker.objects.aggregate(newest=Max("heard_at"))["newest"]
    before = timezone.now()
    theirs = database_now()
    after = timezone.now()
    if not before - SLACK <= theirs <= after + SLACK:
        yield warning("clock", f"This machine's clock and the database server's differ by "
                               f"{abs((theirs - after).total_seconds()):.0f} seconds.",
                      f"On both machines: {_SET_CLOCK}")
    elif heard is not None and heard > theirs + SLACK:
        yield wrong("clock", f"A worker reported at {heard:%Y-%m-%d %H:%M:%S} UTC, which is in the future by the "
                             "database's clock. The clock was set back. Leases last until that time.",
                    f"{_SET_CLOCK} If the clock is correct now, wait until that time, or restart the server.")
    else:
        yield well("clock", "The clock agrees with the times in the database.")

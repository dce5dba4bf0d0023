"""All looks, in the order in which a person wants to read them."""

from collections.abc import Callable, Iterator

from nniweb.database.outage_logs import first_line
from nniweb.doctor import database, files, network, program, work
from nniweb.doctor.findings import Finding, Verdict, wrong

Look = Callable[[], Iterator[Finding]]
_FIRST: tuple[Look, ...] = (
    files.folder, files.keys, files.disk, files.keepers, program.own_clock, program.system_checks,
    program.browser_libraries, network.server, network.exposure, network.public_address, network.redis, network.mail)
#: These ask the database, and are not tried where it is not well.
_WITH_DATABASE: tuple[tuple[str, Look], ...] = (
    ("database connections", database.database_connections), ("secrets", database.secrets),
    ("clock", program.database_clock), ("workers", work.workers),
    ("clusters", work.clusters), ("stored files", files.stored),
    ("mail", work.notifications))


def examine() -> list[Finding]:
    """Look at everything; one look that breaks is a finding and stops no other. Takes seconds."""
    found = [finding for look in _FIRST for finding in _tried(look.__name__, look)]
    of_database = list(_tried("database", database.database))
    found += of_database
    is_well = not any(finding.verdict is Verdict.WRONG for finding in of_database if finding.about == "database")
    for about, look in _WITH_DATABASE:
        found += _tried(about, look) if is_well else [database.not_looked_at(about)]
    return found


def _tried(about: str, look: Look) -> Iterator[Finding]:
    try:
        yield from look()
    except Exception as error:  # noqa: BLE001  what is asked about may be broken in any way
        yield wrong(about.replace("_", " "), f"The check failed: {type(error).__name__}: {first_line(error)}.",
                    "If the other findings do not explain this, it is a defect of this program. Report it with this "
                    "line.")

"""The attempt's folder: reading and writing its small files, and what they say about the attempt's state."""

import contextlib
import errno
import json
import os
import stat
from typing import Any, Dict, Optional

from trialkeeper import contract, machine
from trialkeeper.durable_files import flush_folder
from trialkeeper.file_mode import file_mode
from trialkeeper.folder_reader import open_plain
from trialkeeper.journal import JournalSummary, read_summary
from trialkeeper.whole_number import whole_number

#: States of an attempt, as the agent tells them.
ABSENT, STARTING, RUNNING, ENDED_STATE, CANCELED = "absent", "starting", "running", "ended", "canceled"

FolderState = Dict[str, Any]

#: Longest file that ``read_text`` reads, in bytes: a trial can write to its folder, too.
MOST_TEXT_BYTES = 64 * 1024 * 1024


def default_folder(job_name: str, replica: int = 0) -> str:
    """Where an attempt lives when nobody says: its own folder in this user's temporary folder, which is made.

    Raises OSError, also where somebody else could put a job there.
    """
    import tempfile
    name = job_name if replica == 0 else "%s-replica%d" % (job_name, replica)
    above = os.path.join(tempfile.gettempdir(), "nniweb-%d" % os.getuid())
    make_private_folder(above)
    about = os.lstat(above)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o022:
        raise PermissionError(errno.EPERM, "it is not this user's alone; remove it, or set %s" % contract.ENV_FOLDER,
                              above)
    return os.path.join(above, name)


def make_private_folder(folder: str) -> None:
    """Make the folder and its parents, for this user alone (0700)."""
    previous = os.umask(0o077)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    finally:
        os.umask(previous)


def write_file(path: str, text: str, durable: bool = False, secret: bool = False) -> None:
    """Replace a file as a whole: readers see the old or the new text. ``durable``: it survives a power cut.

    Only this user can read it, always where it is ``secret``, else unless ENV_READABLE says so.
    A lone surrogate is written as its JSON escape: whatever is written here and may hold one is JSON.
    The folder may be one that a trial writes to, too: a link that it has put there is replaced, and never followed.
    """
    temporary = "%s.%d.new" % (path, os.getpid())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else file_mode()),
              "wb") as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
        if durable:
            stream.flush()
            os.fsync(stream.fileno())
    os.replace(temporary, path)
    if durable:
        flush_folder(os.path.dirname(path))


def modified_at(path: str) -> Optional[float]:
    """When the file was written last, in seconds since 1970; None where it is missing."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


def read_text(path: str) -> Optional[str]:
    """The file's text, None where it is missing or cannot be read, is no plain file or a very long one."""
    try:
        with open_plain(path) as stream:
            is_too_long = os.fstat(stream.fileno()).st_size > MOST_TEXT_BYTES
            return None if is_too_long else stream.read().decode("utf-8", "replace")
    except OSError:
        return None


def read_object(path: str) -> Optional[Dict[str, Any]]:
    """The JSON object in a file, None where there is none (or only half of one)."""
    text = read_text(path)
    try:
        document = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def job_name_of(folder: str) -> str:
    """The attempt's name by its job or, where that is damaged, by its journal; "" where neither says it."""
    name = (read_object(os.path.join(folder, contract.JOB_FILE)) or {}).get("job_name")
    if not isinstance(name, str):
        summary = summary_of(folder)
        name = "" if summary is None else summary.job_name
    return name


def read_accepted(folder: str) -> int:
    """The highest entry number that a server is known to have."""
    return whole_number(read_text(os.path.join(folder, contract.ACCEPTED_FILE)) or "") or 0


def keeper_pid(folder: str) -> Optional[int]:
    """Process id of the keeper that lives in this folder now, None where none does."""
    document = read_object(os.path.join(folder, contract.KEEPER_FILE))
    if document is not None and machine.process_lives(document.get("pid"), document.get("start_time")):
        return int(document["pid"])
    return None


def wake(folder: str) -> None:
    """Have the keeper look for news at once. Harmless where none lives."""
    try:
        descriptor = os.open(os.path.join(folder, contract.WAKE_FILE), os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            os.write(descriptor, b"!")
    except OSError:
        pass
    finally:
        os.close(descriptor)


def folder_state(folder: str, starting_pid: Optional[int] = None) -> FolderState:
    """What is known of an attempt by its files. ``starting_pid``: a keeper just forked that wrote no file yet."""
    keeper = keeper_pid(folder) or starting_pid  # before its files: what one that has ended wrote is there then
    exit_document = read_object(os.path.join(folder, contract.EXIT_FILE))
    trial = read_object(os.path.join(folder, contract.TRIAL_FILE)) or {}
    delivered = False
    if exit_document is not None:
        state = ENDED_STATE
        summary = summary_of(folder)
        delivered = bool(exit_document.get("claimed")) or \
            (summary is not None and summary.ended and read_accepted(folder) >= summary.last_n)
    elif keeper is not None:
        state = RUNNING if trial else STARTING
    elif needs_finishing(folder):
        state = RUNNING
    elif os.path.exists(os.path.join(folder, contract.CANCELED_FILE)):
        state = CANCELED
    else:
        state = STARTING if waits_for_room(folder) else ABSENT
    found = {"state": state, "exit": exit_document, "keeper_pid": keeper, "pid": trial.get("pid"),
             "working_directory": trial.get("working_directory", ""), "delivered": delivered,
             "way_home": (read_text(os.path.join(folder, contract.WAY_FILE)) or "").strip()}
    node = read_object(os.path.join(folder, contract.NODE_FILE))
    if node is not None:
        found["node"] = node
    waits_for = waits_for_room(folder) if state == STARTING else ""
    return {**found, "waits_for": waits_for} if waits_for else found


def waits_for_room(folder: str) -> str:
    """Why the attempt waits before it begins, a sentence; "" where it does not."""
    return (read_text(os.path.join(folder, contract.WAITS_FILE)) or "").strip()


def needs_finishing(folder: str) -> bool:
    """Whether an attempt was begun here and its end is not on record; its keeper must be dead for this to matter."""
    if read_object(os.path.join(folder, contract.EXIT_FILE)) is not None:
        return False
    summary = summary_of(folder)
    return summary is not None and summary.started and not summary.ended


def summary_of(folder: str) -> Optional[JournalSummary]:
    """What the journal says in short, None where there is none."""
    try:
        return read_summary(os.path.join(folder, contract.JOURNAL_FILE))
    except OSError:
        return None

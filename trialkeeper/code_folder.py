"""The trial's code: a folder that is there, an archive on this machine, or one fetched from the server."""

from __future__ import annotations

import json
import os
import posixpath
import time
from typing import TYPE_CHECKING, Callable, Iterator, Optional
from urllib.parse import quote

from trialkeeper import contract, machine
from trialkeeper.child_process import CannotStart
from trialkeeper.reporter import pause_after
from trialkeeper.server_connection import Answer, ServerAway, ServerConnection

if TYPE_CHECKING:  # loaded where it is used: most keepers never unpack anything, and these modules are large
    import tarfile

#: Attempts to fetch an archive whose hash is wrong.
_FETCHES = 3


def runs_in_users_folder(job: contract.JobDocument) -> bool:
    """Whether the trial runs in a folder that is there already, so that no code has to be prepared."""
    return bool((job.get("code") or {}).get("folder")) and not job.get("variant")


def working_directory_of(job: contract.JobDocument, folder: str) -> str:
    """Where the trial will run: the user's own folder, or CODE_FOLDER in the attempt's folder."""
    code = job.get("code")
    return code["folder"] if code and code.get("folder") else os.path.join(folder, contract.CODE_FOLDER)


def prepare_code(job: contract.JobDocument, folder: str, connection: Optional[ServerConnection], *,
                 give_up_after: float, log: Callable[[str], None], clock: Callable[[], float] = time.monotonic,
                 sleep: Callable[[float], None] = time.sleep) -> None:
    """Have the code in CODE_FOLDER. Blocks, also while the server is away. Raises CannotStart."""
    code = job.get("code")
    variant = job.get("variant")
    target = os.path.join(folder, contract.CODE_FOLDER)
    if os.path.isdir(target):
        return  # unpacked by this attempt before
    if variant and not (code and code.get("sha256")):
        raise CannotStart("the trial has a code variant, and no copy of the code that it could be laid over")
    try:
        if not code:
            os.makedirs(target)
            return
        archive = code.get("archive")
        if archive:
            if not os.path.isfile(archive):
                raise CannotStart("the code archive %s does not exist on %s" % (archive, machine.host()))
            if file_sha256(archive) != code["sha256"]:
                raise CannotStart("the code archive %s is damaged: its SHA-256 is not %s" % (archive, code["sha256"]))
            extract_archive(archive, target, code.get("part", ""), variant)
        else:
            if connection is None:
                raise CannotStart("the code is to be fetched, but no server address is known")
            fetched = os.path.join(folder, "code.tar.gz")
            _fetch(connection, job, code["sha256"], fetched, clock() + give_up_after, log, clock, sleep)
            extract_archive(fetched, target, code.get("part", ""), variant)
            os.remove(fetched)
    except OSError as error:
        raise CannotStart("the code could not be put into %s on %s: %s" % (target, machine.host(), error)) from error


def file_sha256(path: str) -> str:
    """Hash of a file in hex."""
    import hashlib
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while True:
            block = stream.read(1024 * 1024)
            if not block:
                return digest.hexdigest()
            digest.update(block)


def _fetch(connection: ServerConnection, job: contract.JobDocument, sha256: str, path: str, give_up_at: float,
           log: Callable[[str], None], clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
    failures = wrong = 0
    while True:
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as sink:
                connection.call("GET", "experiments/%s/code" % quote(job["experiment_id"], safe=""), _is_code,
                                headers={"Accept": "application/gzip"}, sink=sink)
            if file_sha256(path) == sha256:
                return
            wrong += 1
            if wrong >= _FETCHES:
                raise CannotStart("the server sends code whose SHA-256 is not %s, as announced" % sha256)
            log("the code arrived damaged; fetching it again")
        except ServerAway as away:
            if clock() >= give_up_at:
                raise CannotStart("the code could not be fetched: %s" % away) from away
            if failures == 0:
                log("the code cannot be fetched yet: %s" % away)
            sleep(max(pause_after(failures), away.retry_after))
            failures += 1


def _is_code(answer: Answer) -> str:
    return "" if answer.status == 200 else "answered %d" % answer.status


# --- unpacking -----------------------------------------------------------------------------


def extract_archive(archive: str, target: str, part: str = "",
                    variant: Optional[contract.VariantDocument] = None) -> None:
    """Unpack a tar.gz into ``target``, which appears whole or not at all. Raises CannotStart, OSError.

    With ``part``: only the content of this folder at the archive's top, as if it were the whole archive. With
    ``variant``: its files are laid over it.
    Refused: paths and links that leave the folder, devices, pipes. Kept: execute bits, empty folders, links
    inside the tree, any file name. Owners and set-user-id bits are not taken over.
    """
    import shutil
    import tarfile
    partial = target + ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial, mode=0o700)
    root = os.path.realpath(partial)
    try:
        with tarfile.open(archive, "r:*") as tar:
            members = tar if not part else _members_of(tar, part)
            links = [os.path.join(root, member.name) for member in members if _extract_member(tar, member, root)]
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise CannotStart("the code archive cannot be unpacked: %s" % error) from error
    for link in links:
        if os.path.islink(link) and not _is_inside(os.path.realpath(link), root):
            raise CannotStart("the code archive was refused: the link %s leaves the folder"
                              % json.dumps(os.path.relpath(link, root)))
    if variant:
        from trialkeeper.code_variant import lay_over
        lay_over(variant, partial, part)
    os.rename(partial, target)


def _members_of(tar: tarfile.TarFile, part: str) -> Iterator[tarfile.TarInfo]:
    """The members below a folder, under their names there. Raises CannotStart where the archive has no such folder."""
    is_there = False
    for member in tar:
        top, _, below = posixpath.join(member.name, "").lstrip("./").partition("/")
        if top != part:
            continue
        is_there = True
        member.name = below.rstrip("/") or "."
        if member.islnk():
            goal_top, _, goal = member.linkname.lstrip("./").partition("/")
            member.linkname = goal if goal_top == part else posixpath.join("..", member.linkname)
        yield member
    if not is_there:
        raise CannotStart("the code archive has no folder %s; launch the experiment again" % part)


def _extract_member(tar: tarfile.TarFile, member: tarfile.TarInfo, root: str) -> bool:
    """Unpack one member; True if it is a link whose goal must be checked when all is there."""
    name = os.path.normpath(member.name)
    path = os.path.join(root, name)
    if name == ".":
        return False
    if os.path.isabs(member.name) or name.split("/")[0] == ".." or "\0" in name \
            or not _is_inside(os.path.realpath(os.path.dirname(path)), root):
        raise CannotStart("the code archive was refused: the path %s leaves the folder" % json.dumps(member.name))
    if member.isdir():
        if os.path.islink(path):
            raise CannotStart("the code archive was refused: %s is a link and a folder" % json.dumps(member.name))
        os.makedirs(path, exist_ok=True)
        os.chmod(path, member.mode & 0o777 | 0o700)
        return False
    import shutil
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.remove(path)
    if member.issym():
        if os.path.isabs(member.linkname):
            raise CannotStart("the code archive was refused: the link %s leaves the folder" % json.dumps(member.name))
        os.symlink(member.linkname, path)
        return True
    if member.islnk():
        source = os.path.realpath(os.path.join(root, member.linkname))
        if not _is_inside(source, root) or not os.path.isfile(source):
            raise CannotStart("the code archive was refused: the link %s leaves the folder" % json.dumps(member.name))
        shutil.copy2(source, path)
        return False
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        raise CannotStart("the code archive was refused: %s is neither file, folder nor link" % json.dumps(member.name))
    with content, open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as stream:
        shutil.copyfileobj(content, stream, 256 * 1024)
        os.fchmod(stream.fileno(), member.mode & 0o777 | 0o600)
    os.utime(path, (member.mtime, member.mtime))
    return False


def _is_inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")

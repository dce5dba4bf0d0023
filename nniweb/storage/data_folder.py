"""The data folder: who may read it, the keys made at first start, the lock of its one server."""

import base64
import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import IO, Any

from trialkeeper.durable_files import flush_file, flush_folder, put_in_place


class DataFolderLocked(Exception):
    """Another server uses this data folder. ``holder`` is what it wrote about itself."""

    def __init__(self, folder: Path, holder: dict[str, Any]) -> None:
        where = f" at {holder['urls'][0]}" if holder.get("urls") else ""
        who = f" (process {holder['pid']})" if holder.get("pid") else ""
        super().__init__(f"The data folder {folder} is in use by another server{where}{who}. Use that server, stop it, "
                         "or choose another folder with NNIWEB_DATA.")


class EmptyKey(ValueError):
    """A file with a key has none: a loss of power, a full disk or a person has emptied it."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is empty. Put its content back from a copy. Without a copy, remove the file, and "
                         "restore a backup that has the keys. If this installation was not used yet, removing the "
                         "file is enough: the next start creates a new one.")


#: In the data folder while the things of an installation are moved out and those of a backup in: a line for each time
#: that it was begun, with where the old things are.
RESTORING = "restore-unfinished"

_only_look = False


def only_look() -> None:
    """From now on this process makes and changes nothing in the data folder: for what tells whether it is well.

    To be called before Django is set up. A key that is missing is then made up, and forgotten with the process.
    """
    global _only_look
    _only_look = True


def prepare(folder: Path) -> Path:
    """Make the folder (mode 0700) where it is missing; return it."""
    if _only_look:
        return folder
    for part in [*reversed(folder.parents), folder]:
        if not part.is_dir():  # mkdir's parents=True would make the ones above with the usual mode
            part.mkdir(mode=0o700, exist_ok=True)
            flush_folder(str(part.parent))
    return folder


def close_to_others(folder: Path) -> None:
    """Take other users' rights away (mode 0700) where the folder is ours and holds nothing but a server's things.

    One that somebody made by hand usually lets all users in, and the database lies in it.
    """
    if _only_look:
        return
    status = folder.stat()
    is_ours = status.st_uid == os.geteuid() and ((folder / "keys").is_dir() or not any(folder.iterdir()))
    if is_ours and status.st_mode & 0o077:
        folder.chmod(0o700)


def who_else_may_look(folder: Path) -> str:
    """Who besides the owner may look into the folder, in words; "" for nobody."""
    mode = folder.stat().st_mode
    if mode & 0o007:
        return "every user of this machine"
    return "its group" if mode & 0o070 else ""


def read_or_make(path: Path, make: Any) -> str:
    """The text of a small private file; where it is missing it is made once (mode 0600), whoever comes first.

    Raises EmptyKey where the file has none: with an empty key a server would seem to be another one.
    """
    try:
        text = path.read_text().strip()
        if not text and not _only_look:
            raise EmptyKey(path)
        return text
    except FileNotFoundError:
        if _only_look:
            return str(make())
    prepare(path.parent)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(make())
    flush_file(str(draft))  # before it has its name: an empty key after a loss of power would be nobody's key
    try:
        os.link(draft, path)  # fails if another process was first: then its key is the key
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    flush_folder(str(path.parent))
    return path.read_text().strip()


def secret_key(folder: Path) -> str:
    """Django's SECRET_KEY of this installation."""
    return read_or_make(folder / "keys" / "secret_key", lambda: secrets.token_urlsafe(50))


def new_seal_key() -> str:
    """A Fernet key."""
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


def seal_keys(folder: Path) -> str:
    """Fernet keys (comma-separated, the first one seals) of this installation."""
    return read_or_make(folder / "keys" / "seal_keys", new_seal_key)


def write_seal_keys(folder: Path, keys: list[str]) -> None:
    """Replace the Fernet keys: whoever reads them sees all old or all new ones. Raises OSError."""
    path = folder / "keys" / "seal_keys"
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(",".join(keys))
    put_in_place(str(draft), str(path))


def installation_id(folder: Path) -> str:
    """A random name of this installation; keepers obey only their own."""
    return read_or_make(folder / "keys" / "installation", lambda: secrets.token_hex(8))


def why_half_restored(folder: Path) -> str:
    """A sentence where a restore was interrupted while it moved things, and not repeated since; "" else."""
    try:
        begun = (folder / RESTORING).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    olds = ", ".join(filter(None, begun))
    return (f"A restore of a backup into {folder} was interrupted: a part of what is there is old, a part is restored. "
            "Give the restore command again, with --force." + (f" The old installation is in {olds}." if olds else ""))


class ServerLock:
    """Held by ``serve`` as long as it runs; also keeps ``server.json``, in which local keepers find the address."""

    def __init__(self, folder: Path) -> None:
        self.folder = prepare(folder)
        self._file: IO[str] | None = None

    @property
    def address_file(self) -> Path:
        return self.folder / "server.json"

    def acquire(self) -> None:
        """Raises DataFolderLocked, or OSError where the folder's file system has no locks."""
        file = open(self.folder / "server.lock", "a")  # noqa: SIM115  # held until release()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise DataFolderLocked(self.folder, read_address_file(self.address_file)) from None
        except OSError:
            file.close()
            raise
        self._file = file

    def is_held(self) -> bool:
        """Whether a server uses the folder now. Makes nothing; asks for an instant for the lock, as another server."""
        try:
            with open(self.folder / "server.lock") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def write_address(self, urls: list[str]) -> None:
        """Tell keepers on this machine where the server listens now. Not flushed: each start writes it anew."""
        draft = self.address_file.with_suffix(".draft")
        draft.write_text(json.dumps({"urls": urls, "pid": os.getpid()}))
        draft.chmod(0o600)
        draft.replace(self.address_file)

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def read_address_file(path: Path) -> dict[str, Any]:
    """Content of ``server.json``; {} where there is none or it cannot be read."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}

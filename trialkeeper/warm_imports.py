"""What a parent of warm trials imports, and whether it can be forked afterwards.

Runs in the trial's Python beside ``warm_parent.py``, from CPython 3.6 on.
"""

import os
import sys

TYPE_CHECKING = False  # typing itself would be loaded in each trial
if TYPE_CHECKING:
    from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple

#: Characters of what is told of a refusal.
MOST_DETAIL = 500
#: What would be lost where it was not called at the end: how the name of a library begins, its function, the name of
#: the argument. HDF5 closes files that are open still; the streams of C++ (cout, clog, wcout) are written out.
KEEP_DATA = (("libhdf5", "H5close", ""), ("libstdc++", "_ZNSo5flushEv", "_ZSt4cout"),
             ("libstdc++", "_ZNSo5flushEv", "_ZSt4clog"),
             ("libstdc++", "_ZNSt13basic_ostreamIwSt11char_traitsIwEE5flushEv", "_ZSt5wcout"))
#: Descriptors of its own that a program has at its start.
STANDARD = (0, 1, 2)


class Refused(Exception):
    """Trials cannot be forked from this process. ``reason``: {"cause", "detail"}."""

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(cause)
        self.reason = {"cause": cause, "detail": detail[:MOST_DETAIL]}


def import_modules(names: "List[str]", trial_variables: "Set[str]", skip_missing: bool
                   ) -> "Tuple[List[str], Dict[str, Optional[str]]]":
    """Those that were imported, and the variables that they have set in the environment, None for one that they have
    removed. Raises Refused where one fails, or reads a variable that each trial has its own of.

    ``skip_missing``: leave out what cannot be imported; nobody has named it.
    """
    import importlib
    for name in trial_variables:
        os.environ.pop(name, None)
    before = dict(os.environ)
    read: "List[str]" = []
    data = os.environ._data  # type: ignore[attr-defined]

    class Watched(dict):  # type: ignore[type-arg]
        def __missing__(self, key: bytes) -> "Any":
            name = os.fsdecode(key)
            if name in trial_variables:
                read.append(name)
            raise KeyError(key)

    watched = Watched(data)
    _watch(watched)
    done = []
    folders = _TemporaryFolders() if names else None
    try:
        for name in names:
            if name in sys.modules:
                done.append(name)
                continue
            try:
                importlib.import_module(name)
                done.append(name)
            except BaseException as error:
                if read:
                    raise Refused("reads", "%s, %s" % (name, read[0])) from error
                if skip_missing and isinstance(error, ImportError):
                    continue
                raise Refused("import", "%s (%s: %s)" % (name, type(error).__name__, error)) from error
            if read:
                raise Refused("reads", "%s, %s" % (name, read[0]))
    finally:
        if folders is not None:
            folders.end()
        data.clear()
        data.update(watched)
        _watch(data)
    if folders is not None and folders.left():
        raise Refused("files", ", ".join(folders.left()))
    return done, changes_of(before, dict(os.environ))


class _TemporaryFolders:
    """Notes those that are made from now until ``end``. Who makes one mostly removes it at the end of the process: each
    trial would, and the first one for all others.
    """

    def __init__(self) -> None:
        import tempfile
        self._module, self._make = tempfile, tempfile.mkdtemp
        self._made = []  # type: List[str]
        self._notes = True
        tempfile.mkdtemp = self._noted

    def _noted(self, *args: "Any", **named: "Any") -> "Any":
        made = self._make(*args, **named)
        if self._notes:
            self._made.append(os.fsdecode(made))
        return made

    def end(self) -> None:
        self._notes = False  # a module may have taken the name
        self._module.mkdtemp = self._make

    def left(self) -> "List[str]":
        return [path for path in self._made if os.path.isdir(path)]


def _watch(data: "Dict[bytes, bytes]") -> None:
    """Have both forms of the environment look there."""
    os.environ._data = os.environb._data = data  # type: ignore[attr-defined]


def changes_of(before: "Dict[str, str]", after: "Dict[str, str]") -> "Dict[str, Optional[str]]":
    """Variables that are others now; None: it was removed."""
    changes = {}  # type: Dict[str, Optional[str]]
    changes.update((name, value) for name, value in after.items() if before.get(name) != value)
    changes.update((name, None) for name in before if name not in after)
    return changes


def watched_files(loaded_at_start: "FrozenSet[str]") -> "Set[str]":
    """What a change of makes another parent: files of loaded modules, folders of installed packages, Python."""
    files = {sys.executable, os.path.join(sys.prefix, "pyvenv.cfg")}
    # no other folders of the path: trials may write their results into these
    files.update(path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages"))
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__dict__", {}).get("__file__")  # a lazy module would be loaded by getattr
        if isinstance(path, str) and name not in loaded_at_start and os.path.isabs(path):
            files.add(path)
    return files


def stamp_of(path: str) -> "Tuple[int, int]":
    """Changes when the file does."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_ino)


def open_files() -> "Set[str]":
    """What this process has open, less what it was given at its start."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) not in STANDARD:
                found.add(os.readlink("/proc/self/fd/" + name))
        except OSError:
            pass  # the one that listed them
    return {path for path in found if not path.startswith("/proc/")}


def refuse_what_does_not_fork(files_before: "Set[str]") -> None:
    """Raises Refused where the imports have made this process one that cannot be forked.

    ``files_before``: what was open before them.
    """
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and getattr(cuda, "is_initialized", bool)():
        raise Refused("cuda")
    opened = sorted(open_files() - files_before)
    if any(path.startswith("/dev/nvidia") for path in opened):
        raise Refused("cuda")
    if opened:
        raise Refused("files", ", ".join(opened))
    # libraries that can be forked (OpenBLAS) end their threads themselves before a fork
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise Refused("threads", str(threads - 1))


def functions_that_keep_data() -> "List[Tuple[int, Optional[int]]]":
    """Those of the loaded libraries of C that are called at a trial's end, where what libraries have registered for
    that is skipped: addresses, each with that of its argument or None.
    """
    import ctypes
    with open("/proc/self/maps", errors="surrogateescape") as stream:
        paths = {line[line.index("/"):].rstrip("\n") for line in stream if "/" in line}
    found = set()  # type: Set[Tuple[int, Optional[int]]]
    for path in paths:
        for beginning, function, argument in KEEP_DATA:
            if os.path.basename(path).startswith(beginning):
                try:
                    library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
                    address = ctypes.cast(getattr(library, function), ctypes.c_void_p).value or 0
                    of = ctypes.addressof(ctypes.c_char.in_dll(library, argument)) if argument else None
                    found.add((address, of))
                except (OSError, AttributeError, ValueError):
                    pass  # it has no such function, or is no library
    return sorted(found, key=str)


def resident_bytes() -> int:
    """Memory of this process."""
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

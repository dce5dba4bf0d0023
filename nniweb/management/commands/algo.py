"""``python manage.py algo ...``: algorithms that experiments may name as they name built-in ones."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from nniweb.tuning.algorithms import ASSESSORS, TUNERS
from nniweb.tuning.process.tuner_child import tuner_environment
from nniweb.tuning.registered_algorithms import (
    RegisteredAlgorithm,
    read_meta_file,
    register,
    registered_algorithms,
    registrations_path,
    unregister,
)
from nniweb.tuning.search_space.problem import InvalidInput
from trainingservice.words.shown_value import shown

#: Seconds that the import of a class may take.
_IMPORT_SECONDS = 300


class Command(BaseCommand):
    help = "Register tuners, assessors and advisors under a name, as nnictl algo does."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
        verbs.add_parser("list", help="the built-in and the registered ones")
        adding = verbs.add_parser("register", help="register the algorithms that a file names")
        adding.add_argument("file", nargs="?", metavar="FILE", help=(
            "YAML with algoType (tuner, assessor or advisor), builtinName, className (module.Class) and, where there "
            "is one, classArgsValidator; or a list algorithms of such entries"))
        adding.add_argument("--meta_path", "--meta", "-m", dest="meta", metavar="FILE", help="the same, as in nnictl")
        for verb, words in (("unregister", "forget one"), ("show", "print one")):
            verbs.add_parser(verb, help=words).add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb']}")(options)
        except InvalidInput as error:
            raise CommandError("; ".join(problem.message for problem in error.problems)) from None
        except OSError as error:
            raise CommandError(f"{error.filename or registrations_path()}: {error.strerror}") from None

    def _list(self, options: dict[str, Any]) -> None:
        rows = [(one.name, kind, "built in") for kind, known in (("tuner", TUNERS), ("assessor", ASSESSORS))
                for one in known]
        rows += [(one.name, one.kind, one.class_name) for one in registered_algorithms()]
        width = max(len(name) for name, _, _ in rows)
        for name, kind, source in rows:
            self.stdout.write(f"{name:{width}}  {kind:8}  {source}")

    def _show(self, options: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(dict(_known(options["name"]).written), indent=4))

    def _register(self, options: dict[str, Any]) -> None:
        file = options["file"] or options["meta"]
        if file is None or (options["file"] and options["meta"]):
            raise CommandError("Name one file: algo register FILE.")
        found = read_meta_file(Path(file).absolute())
        for one in found:
            if problem := _why_not_importable(one):
                raise CommandError(f"{one.name} is not registered: {problem}")
        register(found)
        for one in found:
            self.stdout.write(f"{one.name} is registered in {registrations_path()}.")

    def _unregister(self, options: dict[str, Any]) -> None:
        known = _known(options["name"])
        unregister(known.name)
        self.stdout.write(f"{known.name} is not registered any more. Experiments that use it go on with its class.")


def _known(name: str) -> RegisteredAlgorithm:
    for one in registered_algorithms():
        if one.name.lower() == name.lower():
            return one
    names = ", ".join(one.name for one in registered_algorithms())
    raise CommandError(f"No algorithm is registered as {shown(name)}. " + (f"There are: {names}." if names else
                                                                      "None is registered."))


def _why_not_importable(algorithm: RegisteredAlgorithm) -> str:
    """"" where its classes can be imported by a server with this environment."""
    command = [sys.executable, "-m", "nniweb.tuning.custom_algorithms.importable", algorithm.kind,
               algorithm.class_name, *filter(None, [algorithm.validator])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_IMPORT_SECONDS, env=tuner_environment())
    except subprocess.TimeoutExpired:
        return f"the import of {algorithm.class_name} took more than {_IMPORT_SECONDS} s"
    lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else f"its import ended with {done.returncode}")

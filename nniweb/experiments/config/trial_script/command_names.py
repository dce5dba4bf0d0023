"""Names of parameters in a trial's command, such as ``{lr}``: which are meant, and which are misspelt."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.settings import AlgorithmSettings
from nniweb.tuning.algorithms import find_tuner
from nniweb.tuning.search_space.flat_names import names_in_space
from trainingservice.words.shown_value import shown
from trialkeeper.command_template import ARGUMENTS, OVERRIDES, Place, places
from trialkeeper.trial_parameters import variable_of

_A_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
#: How much alike two names are of which one may be the other, misspelt: from 0 to 1.
_ALIKE = 0.75
#: Of so many different names something is told: each that is no parameter is compared with all parameters.
_MOST_TOLD = 50


def check_command_names(command: str, search_space: Mapping[str, Any], tuner: AlgorithmSettings | None,
                        findings: Findings) -> None:
    """Notes what is left as it is, and finds what is probably a misspelt parameter.

    Where a tuner of one's own chooses the parameters, their names are not known, and nothing is said.
    """
    if "{" not in command or not search_space or tuner is None or not tuner.name:
        return
    known = names_in_space(search_space)
    if find_tuner(tuner.name).takes_a_list:  # an option is a whole parameter set
        known += [name.partition(".")[2] for name in known if "." in name]
    meant = {*known, ARGUMENTS, OVERRIDES}
    told: set[tuple[str, str | None]] = set()
    for place in places(command):
        # in other quotes something else is said of the same name
        if place.is_escaped or (place.name, place.quotes) in told:
            continue
        if place.name in meant:
            if place.quotes is None:
                told.add((place.name, place.quotes))
                findings.note(_not_here(place, findings))
        elif _A_NAME.fullmatch(place.name):
            told.add((place.name, place.quotes))
            _unknown(place, known, findings)
        if len(told) == _MOST_TOLD:
            return


def _not_here(place: Place, findings: Findings) -> str:
    return (f"{findings.spelling('trialCommand')}: {{{place.name}}} is left as it is, because it stands in backquotes, "
            "a here-document, $'...' or ${...}, or after something that can be read in several ways. Use the variable "
            f"{variable_of(place.name)} there.")


def _unknown(place: Place, known: list[str], findings: Findings) -> None:
    near = difflib.get_close_matches(place.name, known, n=1, cutoff=_ALIKE)
    # what stands in single quotes is often a program of its own, such as awk's
    if near and place.quotes in ("", '"'):
        findings.add("trialCommand", f"has {shown('{' + place.name + '}')}, but there is no such parameter; did you "
                                     f"mean {{{near[0]}}}? A text with braces that is not meant as a parameter can be "
                                     "written in single quotes")
    else:
        findings.note(f"{findings.spelling('trialCommand')}: {{{place.name}}} is left as it is, because no parameter "
                      "has this name.")

"""Prompts: how an agent goes about what people ask for most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

#: Characters of an argument.
LONGEST = 20_000

_RUN = """\
Run a hyper-parameter search on this NNI Web server: {goal}

1. Call budget: what the token may do, and what is left.
2. Call list_experiments: is there a search like this already? inspect_experiment tells what came of it.
3. Write a config. The resource nniweb://config-reference describes its fields, nniweb://your-script how a script gets \
its parameters. Begin small: few trials, maxTrialNumber set, trialConcurrency 1 or 2, maxTrialDuration set.
4. Call launch with dry_run true. Read errors, notes and the forecast. Mend what is wrong.
5. Call launch with dry_run false and a key.
6. Call wait with its cursor until has_ended. It returns by itself; do not call it more often than it returns.
7. Where trials fail, read the causes in inspect_experiment and the stderr of the first one with tail_log. If all fail \
for the same reason, stop the experiment, mend the cause, and launch anew.
8. Report the best trial, its parameters, and what compare says of the best three.
"""

_IMPROVE = """\
Improve the result of experiment {experiment} by proposals of your own. {leash}

1. Call inspect_experiment: the tuner must be External, wanted says how many proposals could run now.
2. Call wait without a cursor to read all results so far. Keep its cursor.
3. Choose parameters near the best results, and some far from all of them. Write down why, in one sentence each.
4. Call propose with dry_run true: it checks them against the search space and tells what they would cost.
5. Call propose with dry_run false and a key for each, such as the number of the round and of the proposal. Sent again \
under its key, a proposal runs once.
6. Call wait with the cursor, and go on with 3. Propose no more than wanted at a time.
7. Results without a value have failed: read the causes in inspect_experiment before you propose more of the same.
8. Stop when three rounds brought no better result, or the budget is used up: propose with complete true.
"""


@dataclass(frozen=True)
class Prompt:
    name: str
    title: str
    description: str
    #: Name -> what it is, and whether it must be given.
    arguments: Mapping[str, tuple[str, bool]]
    text: Callable[[Mapping[str, str]], str]


PROMPTS = {prompt.name: prompt for prompt in (
    Prompt("run_a_search", "Run a search", "Launch a search, follow it, and report the best result.",
           {"goal": ("What is to be searched, such as: the learning rate of train.py on cluster a100.", True)},
           lambda given: _RUN.format(goal=given["goal"])),
    Prompt("improve_a_script", "Improve a result by proposals", "Propose parameters in rounds, and stay in the budget.",
           {"experiment": ("Id of an experiment with the tuner External.", True),
            "leash": ("What you must keep to, such as: at most 20 trials.", False)},
           lambda given: _IMPROVE.format(experiment=given["experiment"], leash=given.get("leash", "").strip())),
)}


class WrongArguments(Exception):
    """The text says which argument, and what is wrong with it."""


def text_of(name: str, given: Mapping[str, str]) -> str:
    """What the agent is told. Raises WrongArguments."""
    if name not in PROMPTS:
        raise WrongArguments(f"There is no prompt {name[:100]}. Prompts: {', '.join(PROMPTS)}.")
    known = PROMPTS[name].arguments
    for argument, (_, is_required) in known.items():
        if is_required and not given.get(argument, "").strip():
            raise WrongArguments(f"{argument}: is required.")
    for argument, value in given.items():
        if argument not in known:
            raise WrongArguments(f"{argument[:100]}: is not an argument. Arguments: {', '.join(known)}.")
        if len(value) > LONGEST:
            raise WrongArguments(f"{argument}: must have at most {LONGEST:,} characters.")
    return PROMPTS[name].text(given)

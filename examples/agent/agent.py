"""An agent without a model: it improves the result of a script by proposals of its own, and keeps to a leash.

    ../../.venv/bin/python agent.py ../digits --trials 30 --hours 1 --patches patches

It does what docs/skill.md tells agents, with the tools of the MCP server: look, try dry, launch, wait by cursor,
propose, read failures by reason, end. It stores nothing. Killed at any moment and started again with the same
arguments, it finds its experiment by the key of the launch, reads what became of its proposals, and goes on.

Without ``--url`` it starts ``nniweb mcp`` and speaks with it on stdin and stdout. That finds server and token as the
client does (NNIWEB_SERVER, NNIWEB_TOKEN or NNIWEB_TOKEN_FILE). ``--url https://.../mcp/`` speaks with the server over
HTTP, with the token in NNIWEB_TOKEN.
"""

import argparse
import asyncio
import json
import math
import os
import random
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import yaml
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

#: The checkout that this example lies in, if it lies in one.
ROOT = Path(__file__).resolve().parents[2]

#: Points at random before the best ones are varied, and how many of the best are.
AT_RANDOM, BEST = 6, 3
#: How often a good point is tried again with another patch, where there are patches.
PATCHED = 0.4
#: Failed trials without a single success after which it gives up.
HOPELESS = 4
#: How often another point is drawn where one was tried before; then nothing new is left.
DRAWS = 100


class Ended(Exception):
    """The agent ends here; the text says why."""


# --- the tools -------------------------------------------------------------------------------------------------------


class Tools:
    """The server's tools. An answer is a dictionary; an error that the agent cannot mend ends it."""

    def __init__(self, client):
        self._client = client

    async def call(self, name, **arguments):
        result = await self._client.call_tool(name, arguments)
        if result.is_error:
            raise Refused(name, "\n".join(part.text for part in result.content))
        return result.structured_content


class Refused(Ended):
    def __init__(self, tool, text):
        super().__init__(f"{tool}: {text}")
        self.text = text


@asynccontextmanager
async def connected(url):
    if url is None:
        program = StdioServerParameters(command=sys.executable, args=["-m", "nniweb", "mcp"], env=surroundings())
        async with Client(program) as client:
            yield Tools(client)
        return
    if "NNIWEB_TOKEN" not in os.environ:
        raise Ended("There is no token: --url takes it from NNIWEB_TOKEN.")
    headers = {"Authorization": f"Bearer {os.environ['NNIWEB_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as http, \
            Client(streamable_http_client(url, http_client=http)) as client:
        yield Tools(client)


def surroundings():
    """Environment in which ``python -m nniweb`` finds the package: in a checkout it is not installed."""
    if not (ROOT / "nniweb" / "__main__.py").is_file():
        return dict(os.environ)
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


# --- where to look next ----------------------------------------------------------------------------------------------


def point_at_random(space, chance):
    return {name: value_at_random(field, chance) for name, field in space.items()}


def value_at_random(field, chance):
    kind, given = field["_type"], field["_value"]
    if kind == "choice":
        return chance.choice(given)
    low, high = given[0], given[1]
    if kind == "randint":
        return chance.randrange(low, high)
    if kind == "loguniform":
        return math.exp(chance.uniform(math.log(low), math.log(high)))
    return chance.uniform(low, high)


def varied(point, space, chance):
    """A point near this one: one or two of its values are others."""
    new = dict(point)
    for name in chance.sample(list(space), k=min(len(space), chance.choice([1, 1, 2]))):
        field = space[name]
        kind, given = field["_type"], field["_value"]
        if kind == "choice" or chance.random() < 0.1:
            new[name] = value_at_random(field, chance)
            continue
        low, high = given[0], given[1]
        if kind == "loguniform":
            step = chance.gauss(0, 0.15) * math.log(high / low)
            new[name] = min(high, max(low, point[name] * math.exp(step)))
        elif kind == "randint":
            new[name] = min(high - 1, max(low, point[name] + chance.choice([-2, -1, 1, 2])))
        else:
            new[name] = min(high, max(low, point[name] + chance.gauss(0, 0.15) * (high - low)))
    return new


def next_point(number, results, space, maximize, seed, variants):
    """Parameters and variant of the proposal of this number, after these results (parameters, variant, value; the
    value is None where it failed). ``variants``: hashes of the patches that may be tried. Nothing is tried twice; None
    where nothing new was found.
    """
    chance = random.Random(f"{seed}-{number}")
    tried = [result[:2] for result in results]
    draws = (drawn(number, results, space, maximize, chance, variants) for _ in range(DRAWS))
    return next((draw for draw in draws if draw not in tried), None)


def drawn(number, results, space, maximize, chance, variants):
    """Parameters and variant, which may have been tried."""
    good = sorted((result for result in results if result[2] is not None), key=lambda result: result[2],
                  reverse=maximize)
    if number < AT_RANDOM or not good:
        return point_at_random(space, chance), None
    parameters, variant, _ = chance.choice(good[:BEST])
    others = [other for other in (None, *variants) if other != variant]
    if variants and chance.random() < PATCHED:
        return parameters, chance.choice(others)
    return varied(parameters, space, chance), variant


# --- the search ------------------------------------------------------------------------------------------------------


def config_of(folder, trials):
    """The folder's experiment, led from outside, and with no more trials than the leash has."""
    config = yaml.safe_load((folder / "config.yml").read_text())
    space = json.loads((folder / config.pop("searchSpaceFile")).read_text())
    mode = config["tuner"].get("classArgs", {}).get("optimize_mode", "maximize")
    config |= {"experimentName": f"agent: {config['experimentName']}", "searchSpace": space, "maxTrialNumber": trials,
               "tuner": {"name": "External", "classArgs": {"optimize_mode": mode}}}
    files = {path.name: path.read_text() for path in sorted(folder.iterdir())
             if path.suffix in (".py", ".json", ".txt") and path.is_file()}
    return config, files, space, mode == "maximize"


async def search(tools, options):
    config, files, space, maximize = config_of(options.folder, options.trials)
    may = await tools.call("budget")
    if not may["may_change"]:
        raise Ended(f"The token of {may['user']} has the scope {may['scope']} and cannot launch anything.")
    wish = {"config": config, "files": files, "key": options.key}
    patches = patches_in(options.patches)
    try:
        checked = await tools.call("launch", **wish | {"config": {**config, "codeVariants": True}} if patches else wish)
        wish["config"] |= {"codeVariants": True} if patches else {}
    except Refused as refused:
        if "codeVariants" not in refused.text:
            raise
        say("this server knows no patches; parameters alone are tried")
        patches, checked = {}, await tools.call("launch", **wish)
    for note in checked["notes"]:
        say(f"note: {note}")
    experiment = (await tools.call("launch", **wish, dry_run=False))["experiment"]
    say(f"experiment {experiment}, at most {options.trials} trials")
    variants, results, cursor = None, [], {}
    while True:
        news = await tools.call("wait", experiment=experiment, seconds=20 if cursor else 0, **cursor)
        cursor = {"cursor": news["cursor"]}
        results += [(result["parameters"], result["variant"], result["value"]) for result in news["results"]]
        for result in news["results"]:
            say(f"trial {result['sequence_id']}: {result['value']} {result['status']}")
        if news["has_more"]:
            continue
        if news["has_ended"]:
            if variants is None:
                say("it has ended already; another --key begins another search")
            return await report(tools, experiment)
        if variants is None:
            variants = await variants_of(tools, experiment, space, patches)
        await stop_if_hopeless(tools, experiment, results)
        await propose_more(tools, experiment, results, space, maximize, options, variants)


def patches_in(folder):
    """Name -> text."""
    return {} if folder is None else {path.stem: path.read_text() for path in sorted(folder.glob("*.patch"))}


async def variants_of(tools, experiment, space, patches):
    """Hash of each patch, which results tell, -> its text: asked of a dry run. One that does not apply is left out."""
    found = {}
    for name, text in patches.items():
        point = point_at_random(space, random.Random(0))
        try:
            tried = await tools.call("propose", experiment=experiment,
                                     proposals=[{"parameters": point, "variant": {"patch": text}}])
        except Refused as refused:
            if "(409)" in refused.text:  # it takes no proposals now, whatever is in them
                return found
            say(f"patch {name} is not used: {refused.text}")
            continue
        found[tried["trials"][0]["variant"]] = text
    return found


async def propose_more(tools, experiment, results, space, maximize, options, variants):
    """As many proposals as could run now. How many there are already is asked of the server: it is the only memory."""
    so_far = await tools.call("results", experiment=experiment, order="sequence_id", limit=1, columns=["number"])
    wanted = (await tools.call("inspect_experiment", experiment=experiment))["wanted"]
    first = so_far["count"]
    if first >= options.trials:
        await tools.call("propose", experiment=experiment, complete=True, dry_run=False)
        return
    last = min(first + (wanted or 0), options.trials)
    proposals = []
    on_the_way = []
    for number in range(first, last):
        new = next_point(number, results + on_the_way, space, maximize, options.seed, list(variants))
        if new is None:
            break
        parameters, variant = new
        on_the_way.append((parameters, variant, None))
        patched = {"variant": {"patch": variants[variant]}} if variant in variants else {}
        proposals.append({"parameters": parameters, "key": f"point-{number}", **patched})
    if not proposals and last > first:
        say("nothing is left to try that was not tried before")
        await tools.call("propose", experiment=experiment, complete=True, dry_run=False)
    if not proposals:
        return
    try:
        tried = await tools.call("propose", experiment=experiment, proposals=proposals)
        forecast = tried["forecast"]
        used_up = [f"{limit} of {budget['of']}" for budget in forecast["budgets"] for limit in budget["used_up"]]
        if used_up:
            say(f"used up: {', '.join(used_up)}")
        is_too_long = await hours_used(tools, experiment) + (forecast["trial_hours"] or 0.0) > options.hours
        if used_up or is_too_long:
            say("the budget ends here" if used_up else f"the leash of {options.hours:g} hours ends here")
            await tools.call("propose", experiment=experiment, complete=True, dry_run=False)
            return
        await tools.call("propose", experiment=experiment, proposals=proposals, dry_run=False)
    except Refused as refused:
        # the request of an agent that was killed arrived after it was counted: count again
        if "].key: " not in refused.text and "(409)" not in refused.text:
            raise
        say("proposals changed in the meantime; looking again")


async def hours_used(tools, experiment):
    """What the trials have taken so far."""
    seconds, cursor = 0.0, {}
    while True:
        page = await tools.call("results", experiment=experiment, order="sequence_id", columns=["duration"], limit=100,
                                **cursor)
        seconds += sum(row[0] or 0.0 for row in page["rows"])
        if page["cursor"] is None:
            return seconds / 3600
        cursor = {"cursor": page["cursor"]}


async def stop_if_hopeless(tools, experiment, results):
    if len(results) < HOPELESS or any(value is not None for _, _, value in results):
        return
    seen = await tools.call("inspect_experiment", experiment=experiment)
    await tools.call("steer_experiment", experiment=experiment, action="stop", dry_run=False)
    for cause in seen["failures"]:
        tail = await tools.call("tail_log", trial=cause["trial_id"], stream="stderr", bytes=1000)
        say(f"{cause['count']} trials failed: {cause['message']}\n{tail['text']}")
    raise Ended(f"The first {len(results)} trials failed. The experiment was stopped.")


async def report(tools, experiment):
    seen = await tools.call("inspect_experiment", experiment=experiment)
    best = seen["best"]
    say(f"{seen['status']}: {seen['trials']}, " + (
        f"best {best['value']} in trial {best['number']}" if best else "without a result"))
    best = (await tools.call("results", experiment=experiment, limit=3, columns=["trial"]))["rows"]
    if len(best) > 1:
        compared = await tools.call("compare", trials=[row[0] for row in best])
        say(f"the best {len(best)} differ in: {json.dumps(compared['differing'])}")
    return 0


#: What ends the agent with a line instead of a traceback.
EXPECTED = (Ended, MCPError, httpx2.HTTPError, OSError, yaml.YAMLError)


def in_one_line(ended, url):
    if not isinstance(ended, MCPError | httpx2.HTTPError):
        return str(ended)
    if url is None:
        return f"The program with the tools (nniweb mcp) ended: {ended}. What it said stands above."
    return f"The tools at {url} do not answer: {ended or type(ended).__name__}."


def say(text):
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description="Improve a script's result by proposals, within a leash.")
    parser.add_argument("folder", type=Path, help="with config.yml, the search space and the script")
    parser.add_argument("--trials", type=int, default=30, help="at most so many trials (default: 30)")
    parser.add_argument("--hours", type=float, default=1.0, help="at most so many hours of trials (default: 1)")
    parser.add_argument("--patches", type=Path, help="folder of patches of the script that may be tried (*.patch)")
    parser.add_argument("--key", default="agent-1", help="name of this search; another name begins another one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--url", help="address of the MCP server over HTTP, such as https://nni.example.org/mcp/")
    options = parser.parse_args()

    async def run():
        async with connected(options.url) as tools:
            return await search(tools, options)

    try:
        sys.exit(asyncio.run(run()))
    except BaseExceptionGroup as group:  # the client's tasks end together
        ended = group
        while isinstance(ended, BaseExceptionGroup):
            ended = ended.exceptions[0]
        if not isinstance(ended, EXPECTED):
            raise
        sys.exit(in_one_line(ended, options.url))
    except EXPECTED as ended:
        sys.exit(in_one_line(ended, options.url))


if __name__ == "__main__":
    main()

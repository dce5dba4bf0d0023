"""The tool that launches an experiment, and says before what a launch would do."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Annotated, Any

from pydantic import Field

from nniweb.client.code_upload import FormBody
from nniweb.client.errors import FieldError, Refused
from nniweb.mcp_server.rest import Rest
from nniweb.mcp_server.tools import forecasts
from nniweb.mcp_server.tools.experiments import bounded_space
from nniweb.mcp_server.tools.forecasts import ExperimentForecast
from nniweb.mcp_server.tools.tool import Answer, Arguments, DryRun, Sentence

#: Files of code in the arguments, and characters of all of them. Larger code comes from Git or the command line.
MOST_FILES, MOST_CHARACTERS, LONGEST_PATH = 200, 1_000_000, 300
#: As REST has it.
LONGEST_CONFIG = 1_000_000


class LaunchArguments(Arguments):
    config: Annotated[str | dict[str, Any], Field(description=(
        "The experiment's config: the text of a file (YAML or JSON), or the same as an object. The resource "
        "nniweb://config-reference describes its fields."))]
    files: Annotated[dict[Annotated[str, Field(min_length=1, max_length=LONGEST_PATH)], str] | None, Field(
        max_length=MOST_FILES, description=(
            "The trials' code: relative path to text, such as {\"trial.py\": \"...\"}. At most 1,000,000 characters "
            "together. Relative paths of the config start from their top."))] = None
    git_url: Annotated[str | None, Field(max_length=2000, description=(
        "Instead of files: address of a Git repository (https) that the server fetches."))] = None
    git_ref: Annotated[str | None, Field(max_length=300, description="Branch, tag or commit.")] = None
    git_folder: Annotated[str | None, Field(max_length=300, description="Folder of the repository.")] = None
    code_of: Annotated[str | None, Field(max_length=64, description=(
        "Instead of files: id of an experiment whose code is used."))] = None
    base_directory: Annotated[str | None, Field(max_length=4000, description=(
        "Instead of files: a folder on the server, for people with that permission."))] = None
    cluster: Annotated[str | None, Field(max_length=200, description=(
        "Name of a cluster, in place of what the config says."))] = None
    key: Annotated[str | None, Field(min_length=1, max_length=100, pattern="^[ -~]+$", description=(
        "A name of your choice for this launch. Sent again with the same key, it finds the experiment that was "
        "launched, and launches no second one."))] = None
    dry_run: DryRun = True


class LaunchAnswer(Answer):
    is_dry_run: bool
    experiment: Annotated[str | None, Field(description="Its id; null of a dry run.")]
    name: str
    status: Annotated[str | None, Field(description="null of a dry run.")]
    platform: str
    cluster: Annotated[str | None, Field(description="null: one that the launch would make.")]
    tuner: str
    search_space: Any
    forecast: Annotated[ExperimentForecast | None, Field(description="Of a dry run: what it is expected to take.")]
    findings: Annotated[list[dict[str, Any]], Field(description="What the cluster says of the launch.")]
    notes: Annotated[list[Sentence], Field(description="How the config is read.")]


async def launch(rest: Rest, given: LaunchArguments) -> LaunchAnswer:
    """Launch an experiment. With dry_run (the default) nothing is launched: the answer has the errors, the notes and
    the forecast of the launch. Look at them, then call it again with dry_run false and a key.
    """
    path = "experiments/check/" if given.dry_run else "experiments/"
    headers = {} if given.key is None or given.dry_run else {"Idempotency-Key": given.key}
    places = given.model_dump(exclude={"config", "files", "key", "dry_run"}, exclude_none=True)
    if given.files is not None or rest.shell:
        text = given.config if isinstance(given.config, str) else json.dumps(given.config)
        fields = {"config": text, **places, **({"shell": rest.shell} if rest.shell else {})}
        for name, value in fields.items():
            if "\x00" in value:
                raise Refused(400, [FieldError(name, "contains U+0000, which is not allowed in text.")])
        code = None if given.files is None else _archive(given.files)
        document = await rest.ask("POST", path, headers=headers, form=lambda: FormBody(
            fields, None if code is None else io.BytesIO(code), None))
    else:
        document = await rest.ask("POST", path, body={"config": given.config, **places}, headers=headers)
    return _of_check(document) if given.dry_run else _of_launch(document)


def _of_check(document: dict[str, Any]) -> LaunchAnswer:
    return LaunchAnswer.model_validate({
        **document, "is_dry_run": True, "experiment": None, "status": None,
        "forecast": forecasts.of_launch(document),
        "search_space": bounded_space(document["search_space"]), "findings": document["findings"][:20],
        "notes": document["notes"][:20]})


def _of_launch(document: dict[str, Any]) -> LaunchAnswer:
    tuner = document["tuner"].get("name") or document["tuner"].get("class_name") or "custom"
    return LaunchAnswer.model_validate({
        **document, "is_dry_run": False, "experiment": document["id"], "tuner": tuner, "findings": [],
        "forecast": None,
        "search_space": bounded_space(document["search_space"]), "notes": document["notes"][:20]})


def _archive(files: dict[str, str]) -> bytes:
    """The files as tar.gz. Raises Refused; what a path may be, REST decides when it unpacks it."""
    size = sum(map(len, files.values()))
    if size > MOST_CHARACTERS:
        raise Refused(400, [FieldError("files", f"have {size:,} characters; at most {MOST_CHARACTERS:,} are taken. Use "
                                                "git_url, or launch from the command line.")])
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz", compresslevel=1) as archive:
        for path, text in files.items():
            if "\x00" in path:
                raise Refused(400, [FieldError("files", "A path contains U+0000.")])
            content = text.encode()
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()

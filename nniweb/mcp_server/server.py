"""The MCP server: the tables of tools, resources and prompts, given to the official SDK. The same for both transports.

What is wrong with a call is told in its result, so that an agent can mend it; an unknown tool, resource or prompt is an
error of the protocol. Nothing is kept between two requests.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from nniweb import __version__
from nniweb.client.errors import ClientError, Refused
from nniweb.mcp_server import prompts, reference
from nniweb.mcp_server.rest import Rest
from nniweb.mcp_server.tools import BY_NAME, TOOLS
from nniweb.mcp_server.tools.tool import Answer, Tool
from trainingservice.refused_values import sentence

logger = logging.getLogger(__name__)

NAME = "nniweb"
INSTRUCTIONS = (
    "NNI Web runs hyper-parameter searches. An experiment has trials; each has parameters and ends with a result. "
    "Look first (list_experiments, inspect_experiment, budget). Every tool that changes something has dry_run, which "
    "is true unless you say false: it tells errors and what the change would cost. Follow an experiment with wait and "
    "its cursor. The resource nniweb://skill says how to run a search, nniweb://config-reference what a config may "
    "have.")
#: Errors of one answer that are told.
_MOST_ERRORS = 20
_STATUSES = {400: "Wrong input", 401: "Not signed in", 403: "Not permitted", 404: "Not found",
             409: "Not possible now", 413: "Too large", 429: "Too many requests"}

#: The REST interface for the caller of a request.
RestOf = Callable[[ServerRequestContext[Any, Any]], Rest]


def make_server(rest_of: RestOf) -> Server[Any]:
    """A server whose tools ask what ``rest_of`` gives for each request."""

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool_document(tool) for tool in TOOLS])

    async def call_tool(context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
                        ) -> types.CallToolResult:
        tool = BY_NAME.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {_clean(params.name[:100])}. Tools: "
                                                 f"{', '.join(BY_NAME)}.")
        return await called(tool, params.arguments or {}, rest_of(context))

    async def list_resources(_context: Any, _params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[
            types.Resource(name=name, uri=reference.SCHEME + name, description=description,
                           mime_type=reference.MIME_TYPE)
            for name, (_, description) in reference.PAGES.items()])

    async def list_templates(_context: Any, _params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[
            types.ResourceTemplate(name=f"{name}-section", uri_template=f"{reference.SCHEME}{name}/{{section}}",
                                   description=f"A section of the page {name}, which lists them.",
                                   mime_type=reference.MIME_TYPE) for name in reference.PAGES])

    async def read_resource(_context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        try:
            text = reference.read(params.uri)
        except reference.NoSuchResource as error:
            raise MCPError(types.INVALID_PARAMS, _clean(str(error)), {"uri": _clean(params.uri[:1000])}) from None
        return types.ReadResourceResult(contents=[
            types.TextResourceContents(uri=params.uri, text=text, mime_type=reference.MIME_TYPE)])

    async def list_prompts(_context: Any, _params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[
            types.Prompt(name=prompt.name, title=prompt.title, description=prompt.description, arguments=[
                types.PromptArgument(name=name, description=description, required=is_required)
                for name, (description, is_required) in prompt.arguments.items()])
            for prompt in prompts.PROMPTS.values()])

    async def get_prompt(_context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        try:
            text = prompts.text_of(params.name, params.arguments or {})
        except prompts.WrongArguments as error:
            raise MCPError(types.INVALID_PARAMS, _clean(str(error))) from None
        return types.GetPromptResult(description=prompts.PROMPTS[params.name].description, messages=[
            types.PromptMessage(role="user", content=types.TextContent(text=_clean(text)))])

    hints = dict.fromkeys(("tools/list", "prompts/list", "resources/list", "resources/templates/list",
                           "resources/read"), CacheHint(ttl_ms=600_000, scope="private"))
    return Server(NAME, version=__version__, title="NNI Web", instructions=INSTRUCTIONS,
                  cache_hints=hints,  # type: ignore[arg-type]  # the names of methods, as texts
                  get_tool_input_schema=lambda name: tool_document(BY_NAME[name]).input_schema
                  if name in BY_NAME else None,
                  on_list_tools=list_tools, on_call_tool=call_tool, on_list_resources=list_resources,
                  on_list_resource_templates=list_templates, on_read_resource=read_resource,
                  on_list_prompts=list_prompts, on_get_prompt=get_prompt)


@functools.cache
def tool_document(tool: Tool) -> types.Tool:
    """What clients are told of a tool."""
    return types.Tool(
        name=tool.name, description=tool.description, input_schema=_short(tool.arguments.model_json_schema()),
        output_schema=_short(tool.answer.model_json_schema(mode="serialization")), annotations=types.ToolAnnotations(
            read_only_hint=not tool.changes, destructive_hint=tool.is_destructive,
            idempotent_hint=tool.is_idempotent or not tool.changes, open_world_hint=False))


def _short(schema: Any) -> Any:
    """Without titles, which repeat the names."""
    if isinstance(schema, dict):
        return {name: _short(inner) for name, inner in schema.items() if name != "title" or not isinstance(inner, str)}
    return [_short(inner) for inner in schema] if isinstance(schema, list) else schema


async def called(tool: Tool, arguments: dict[str, Any], rest: Rest) -> types.CallToolResult:
    """The result of a call; every failure is one, too, and says what to do."""
    try:
        given = tool.arguments.model_validate(arguments)
    except ValidationError as invalid:
        return _failure("Wrong arguments; nothing was done.", [
            _of_argument(error) for error in invalid.errors(include_url=False)])
    try:
        answer = await tool.run(rest, given)
    except Refused as refused:
        what = f"{_STATUSES.get(refused.status, 'Refused')} ({refused.status})."
        return _failure(what, list(map(str, refused.errors)))
    except ClientError as error:
        return _failure("The server gave no usable answer.", [str(error)])
    except Exception:
        logger.exception("the tool %s failed", tool.name)
        return _failure("The tool failed. The server's log has the error. The request itself may be correct.", [])
    return _success(answer)


def _success(answer: Answer) -> types.CallToolResult:
    document = _clean(answer.model_dump(mode="json"))
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=document)


def _failure(what: str, errors: list[str]) -> types.CallToolResult:
    more = [f"... and {len(errors) - _MOST_ERRORS} more"] if len(errors) > _MOST_ERRORS else []
    text = "\n".join([what, *(f"- {error[:1000]}" for error in errors[:_MOST_ERRORS]), *more])
    return types.CallToolResult(content=[types.TextContent(text=_clean(text))], is_error=True)


def _of_argument(error: Any) -> str:
    """``proposals[2].key: must be ...``, from an error of pydantic."""
    place = ""
    for part in error["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    message = sentence(error)
    return f"{place[:300]}: {message}" if place else message


def _clean(value: Any) -> Any:
    """The same without halves of characters, which no UTF-8 has."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    return value

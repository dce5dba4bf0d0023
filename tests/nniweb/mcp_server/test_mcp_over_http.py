"""The MCP server at /mcp/, asked by the official SDK's client in both eras of the protocol, and by strangers."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.client.client import Client

from nniweb import asgi
from nniweb.experiments.models import Attempt, User
from nniweb.http.callers import request_counts, throttles
from nniweb.mcp_server import prompts, reference
from nniweb.mcp_server.tools import BY_NAME, TOOLS
from tests.nniweb.mcp_server.agent import call_of, post, request, said, with_agent

MODES = ("2026-07-28", "legacy")


def test_nothing_is_served_unless_it_is_switched_on(transactional_db: None, admin: User,
                                                    token_of: Callable[..., str]) -> None:
    assert asgi.mcp_application is None
    assert post(token_of(admin), request("tools/list")).status_code == 404


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_finds_tools_resources_and_prompts(mode: str, switched_on: None, admin: User,
                                                    token_of: Callable[..., str]) -> None:
    async def look(client: Client) -> list[Any]:
        return [await client.list_tools(), await client.list_resources(), await client.list_resource_templates(),
                await client.list_prompts(), await client.get_prompt("run_a_search", {"goal": "the learning rate"}),
                await client.read_resource("nniweb://config-reference"),
                await client.read_resource("nniweb://config-reference/retry")]

    tools, resources, templates, listed, prompt, page, section = with_agent(token_of(admin), look, mode)
    assert {tool.name for tool in tools.tools} == BY_NAME.keys()
    assert {str(resource.uri) for resource in resources.resources} == {f"nniweb://{name}" for name in reference.PAGES}
    assert len(templates.resource_templates) == len(reference.PAGES)
    assert {one.name for one in listed.prompts} == prompts.PROMPTS.keys()
    assert "the learning rate" in prompt.messages[0].content.text
    assert "nniweb://config-reference/retry" in page.contents[0].text
    assert "| `onPlatformFailure` |" in section.contents[0].text
    assert len(page.contents[0].text) <= reference.LONGEST


def test_what_changes_nothing_says_so_and_every_change_has_a_dry_run_that_is_the_default() -> None:
    changing = {tool.name for tool in TOOLS if tool.changes}
    assert changing == {"launch", "propose", "steer_experiment", "cancel_trials"}
    for tool in TOOLS:
        fields = tool.arguments.model_fields
        assert ("dry_run" in fields) == tool.changes
        assert not tool.changes or fields["dry_run"].default is True
        assert len(tool.description) > 20


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_answers_with_structure_that_its_schema_describes(
        mode: str, switched_on: None, make_attempt: Callable[..., Attempt], admin: User,
        token_of: Callable[..., str]) -> None:
    trial = make_attempt().trial

    async def look(client: Client) -> list[Any]:  # the client checks each answer against the output schema
        await client.list_tools()
        return [await client.call_tool("list_experiments", {}),
                await client.call_tool("inspect_experiment", {"experiment": trial.experiment.public_id}),
                await client.call_tool("results", {"experiment": trial.experiment.public_id}),
                await client.call_tool("tail_log", {"trial": trial.public_id}),
                await client.call_tool("wait", {"experiment": trial.experiment.public_id, "seconds": 0}),
                await client.call_tool("budget", {})]

    answers = with_agent(token_of(admin), look, mode)
    assert [said(answer) for answer in answers if answer.is_error] == []
    [line] = answers[0].structured_content["experiments"]
    assert (line["id"], line["trials"]) == (trial.experiment.public_id, 1)
    assert answers[1].structured_content["trials"] == {"WAITING": 1}
    assert answers[2].structured_content["rows"] == [[0, trial.public_id, "WAITING", None, 0.5]]
    assert answers[2].structured_content["columns"] == ["number", "trial", "status", "value", "parameters.x"]
    assert answers[5].structured_content["user"] == "ada"


def test_only_a_token_that_is_good_lets_in(switched_on: None, admin: User, token_of: Callable[..., str]) -> None:
    for wrong in (None, "nniweb_of_nobody"):
        answer = post(wrong, request("tools/list"))
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["error"]["message"]
    from django.test import Client as Browser
    browser = Browser()
    browser.force_login(admin)
    cookie = f"sessionid={browser.cookies['sessionid'].value}"
    assert post(None, request("tools/list"), cookie=cookie).status_code == 401
    assert post(token_of(admin), request("tools/list")).status_code == 200


@pytest.mark.parametrize(("header", "value", "status"), [
    ("host", "rebound.example", 421), ("origin", "https://evil.example", 403), ("origin", "null", 403),
    ("origin", "http://localhost", 200), ("content-type", "text/plain", 400), ("accept", "text/html", 406)])
def test_pages_of_other_sites_and_other_names_are_refused(header: str, value: str, status: int, switched_on: None,
                                                          admin: User, token_of: Callable[..., str]) -> None:
    assert post(token_of(admin), request("tools/list"), **{header: value}).status_code == status


@pytest.mark.parametrize(("body", "status"), [
    (b"", 400), (b"{", 400), (b"[]", 400), (b"null", 400), (b"\xff", 400), (b'{"jsonrpc": "2.0"}', 400),
    (b"[" * 100_000, 400), (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}', 400)])
def test_what_is_no_message_is_refused(body: bytes, status: int, switched_on: None, admin: User,
                                       token_of: Callable[..., str]) -> None:
    for version in ("2025-11-25", "2026-07-28"):
        assert post(token_of(admin), body, **{"mcp-protocol-version": version}).status_code == status


def test_unknown_tools_resources_and_prompts_are_errors_of_the_protocol(switched_on: None, admin: User,
                                                                        token_of: Callable[..., str]) -> None:
    token = token_of(admin)
    for method, params, words in (("tools/call", {"name": "delete_everything"}, "There is no tool delete_everything"),
                                  ("resources/read", {"uri": "file:///etc/passwd"}, "begin with nniweb://"),
                                  ("resources/read", {"uri": "nniweb://../../setup"}, "There is no resource"),
                                  ("resources/read", {"uri": "nniweb://tuners/nothing"}, "Sections: "),
                                  ("prompts/get", {"name": "no"}, "There is no prompt no"),
                                  ("prompts/get", {"name": "run_a_search"}, "goal: is required")):
        error = post(token, request(method, params)).json()["error"]
        assert error["code"] == -32602
        assert words in error["message"]


def test_requests_are_counted_as_those_of_rest(switched_on: None, admin: User, token_of: Callable[..., str],
                                               settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.API_RATE = 3
    monkeypatch.setattr(throttles, "time", SimpleNamespace(time=lambda: 3_000_000_015.0))  # the minute does not end
    request_counts.cache.clear()
    token = token_of(admin)
    assert post(token, request("tools/list")).status_code == 200
    assert post(token, call_of("list_experiments")).json()["result"]["isError"] is False
    assert post(token, request("tools/list")).status_code == 429

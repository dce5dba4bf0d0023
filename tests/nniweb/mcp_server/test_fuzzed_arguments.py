"""Whatever a tool is called with, it answers: with what is wrong and what to do, never with a failure of the server."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nniweb import asgi
from nniweb.experiments.models import Attempt, Experiment, User
from nniweb.mcp_server.in_process import InProcessRest
from nniweb.mcp_server.server import called, tool_document
from nniweb.mcp_server.tools import BY_NAME, TOOLS
from tests.nniweb.mcp_server.agent import call_of, post, said

#: Texts that have broken something somewhere, and any others.
TEXTS = st.sampled_from(["", "\x00", "\ud800", "../../", "%2e%2e/", "a/b", "?x=1", "é" * 300, "'; --", "nan", "-1"]) \
    | st.text(st.characters(), max_size=30)
NUMBERS = st.sampled_from([0, -1, 1, 2**31, 2**63, 10**400, 0.5, 1e308, float("nan"), float("inf"), True])
JUNK = st.recursive(st.none() | st.booleans() | NUMBERS | TEXTS, lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6)


def fitting(schema: dict[str, Any], known: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Arguments of the right names, with values that are right, nearly right, or anything."""
    fields = {}
    for name, field in schema["properties"].items():
        right = [known[name]] if name in known else []
        right += [field["default"]] if "default" in field else []
        right += field.get("enum", [])
        fields[name] = st.sampled_from(right) | JUNK if right else TEXTS | JUNK
    return st.fixed_dictionaries({}, optional=fields) | st.fixed_dictionaries(
        {name: st.just(known[name]) for name in schema.get("required", []) if name in known},
        optional={name: field for name, field in fields.items() if name not in schema.get("required", [])})


@pytest.fixture
def known(switched_on: None, admin: User, make_experiment: Callable[..., Experiment],
          make_attempt: Callable[..., Attempt]) -> dict[str, Any]:
    """Values that are right."""
    trial = make_attempt(make_experiment(tuner={"name": "External"}, trial_concurrency=1000)).trial
    return {"experiment": trial.experiment.public_id, "trial": trial.public_id, "seconds": 0, "dry_run": True,
            "trials": [trial.public_id, trial.public_id], "proposals": [{"parameters": {"x": 0.5}}],
            "config": "trialCommand: 'true'", "files": {"a.py": ""}}


def at_once(seconds: Any) -> Any:
    """The same where it is wrong; 0 for a time that would be waited."""
    with suppress(TypeError, ValueError, OverflowError):
        return 0 if 0 <= float(seconds) <= 30 else seconds
    return seconds


@pytest.mark.parametrize("name", BY_NAME)
def test_no_arguments_make_a_tool_fail(name: str, known: dict[str, Any], admin: User,
                                       token_of: Callable[..., str]) -> None:
    tool = BY_NAME[name]
    scope = {"type": "http", "scheme": "http", "client": ("127.0.0.1", 1), "server": ("localhost", 80), "path": "/mcp/",
             "headers": [(b"host", b"localhost"), (b"authorization", f"Token {token_of(admin)}".encode())]}

    @settings(max_examples=settings.default.max_examples // 2,  # type: ignore[union-attr]  # a profile is loaded
              suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(fitting(tool_document(tool).input_schema, {**known, "cursor": "eyJvZiI6IngifQ"}))
    def tried(arguments: dict[str, Any]) -> None:
        if name == "wait":
            arguments = {**arguments, "seconds": at_once(arguments.get("seconds", 0))}
        result = asyncio.run(called(tool, arguments, InProcessRest(asgi.django_application, scope)))
        text = said(result)
        assert not result.is_error or len(text.splitlines()) > 1, text
        assert "The tool failed" not in text
        assert "(5" not in text.splitlines()[0]
        assert "no usable answer" not in text
        result.model_dump_json()

    tried()


def test_wrong_arguments_are_told_by_name(switched_on: None, admin: User, token_of: Callable[..., str]) -> None:
    token = token_of(admin)
    for call, words in (
            (call_of("inspect_experiment"), "experiment: is required"),
            (call_of("inspect_experiment", experiment="x", id="y"), "id: is not a known field here"),
            (call_of("results", experiment="x", limit=1000), "limit: must be at most 100, not 1000"),
            (call_of("propose", experiment="x", proposals=[{"parameter": {}}]), "proposals[0].parameters: is required"),
            (call_of("tail_log"), "Give either trial or experiment."),
            (call_of("wait", experiment="x", cursor="abc"), "cursor: is not a cursor that this tool gave")):
        answer = post(token, call)
        result = answer.json()["result"]
        assert answer.status_code == 200
        assert result["isError"] is True
        assert words in result["content"][0]["text"]


def test_deep_and_large_arguments_are_answered(switched_on: None, admin: User, token_of: Callable[..., str]) -> None:
    token = token_of(admin)
    deep = json.dumps(call_of("launch", config="@")).replace('"@"', '{"a":' * 2000 + "1" + "}" * 2000).encode()
    large = json.dumps(call_of("launch", config="x", files={"a": "x" * 1_000_001})).encode()
    for body in (deep, large):
        answer = post(token, body)
        assert answer.status_code in (200, 400)
        assert answer.status_code == 400 or answer.json()["result"]["isError"] is True
    assert post(token, b" " * (5 * 2**20)).status_code == 413
    assert len(TOOLS) == len(BY_NAME)

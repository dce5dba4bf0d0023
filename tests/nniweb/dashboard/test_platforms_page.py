"""What is shown of platforms: a stranger's gets its page and its form for free, a broken one says why."""

import json
import re
import sys
from html import unescape
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

from nniweb.experiments.checks import platforms_can_be_used
from nniweb.experiments.models import User
from nniweb.experiments.models.account import Role
from trainingservice import platforms

STRANGER = """
from pydantic import Field, SecretStr
from typing import ClassVar, Literal
from trainingservice.cluster_settings import ClusterSettings, SettingsModel, TrialOptions
from trainingservice.testing.misbehaving import DocileTrainingService

class Door(SettingsModel):
    number: int = 7

class Settings(ClusterSettings):
    platform_name: ClassVar[str] = "stranger"
    address: str = Field(description="Where it answers.")
    password: SecretStr = Field(default="geheim", description="Opens it.")
    door: Door | None = None

class Options(TrialOptions):
    speed: Literal["slow", "fast"] = "slow"
    share: float = Field(default=0.5, description="How much of it.")
    polite: bool = True

class Platform(DocileTrainingService):
    platform = "stranger"
    settings_model = Settings
    options_model = Options
    suspends_jobs = True
"""


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Registers a platform whose module has this text."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(platforms, "_registered", {})
    monkeypatch.setattr(platforms, "_loaded", {})
    monkeypatch.setattr(platforms, "_warned", set())

    def make(name: str, text: str) -> None:
        (tmp_path / f"plugged_{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, f"plugged_{name}", raising=False)
        platforms.register(name, f"plugged_{name}:Platform")

    yield make
    for name in [name for name in sys.modules if name.startswith("plugged_")]:
        del sys.modules[name]


@pytest.fixture
def member(db) -> Client:
    client = Client()
    client.force_login(User.objects.create_user("ada", role=Role.MEMBER))
    return client


def test_a_strangers_platform_is_described_from_its_models(plug_in, member: Client) -> None:
    plug_in("stranger", STRANGER)
    [found] = [each for each in member.get("/api/v1/platforms/").json() if each["name"] == "stranger"]
    fields = {field["name"]: field for field in found["fields_of_section"]}
    assert list(fields) == ["address", "password", "door", "door.number", "speed", "share", "polite"]
    assert {name: (field["kind"], field["default"], field["is_required"], field["of_cluster"], field["is_inner"])
            for name, field in fields.items()} == {
        "address": ("text", None, True, True, False), "password": ("secret", None, False, True, False),
        "door": ("group", None, False, True, False), "door.number": ("integer", 7, False, True, True),
        "speed": ("choice", "slow", False, False, False), "share": ("number", 0.5, False, False, False),
        "polite": ("boolean", True, False, False, False)}
    assert fields["speed"]["choices"] == ["slow", "fast"]
    assert fields["password"]["is_secret"]
    assert found["suspends_jobs"]
    assert "geheim" not in json.dumps(found["fields_of_section"])


def test_the_default_of_a_group_is_what_a_file_would_have(plug_in, member: Client) -> None:
    plug_in("stranger", STRANGER.replace("door: Door | None = None", "door: Door = Door(number=8)").replace(
        "number: int = 7", "lock_number: int = 7\n    number: int = 7\n    key: str | None = None"))
    [found] = [each for each in member.get("/api/v1/platforms/").json() if each["name"] == "stranger"]
    [door] = [field for field in found["fields_of_section"] if field["name"] == "door"]
    assert door["default"] == {"lockNumber": 7, "number": 8}
    page = unescape(member.get("/platforms/").content.decode())
    section = page[page.index('id="stranger"'):].partition("</section>")[0]
    for default in ('{"lockNumber": 7, "number": 8}', "slow", "true", "0.5"):
        assert f"<code>{default}</code>" in section


def test_a_strangers_platform_has_a_place_on_the_page_and_in_the_form(plug_in, member: Client) -> None:
    plug_in("stranger", STRANGER)
    page = member.get("/platforms/").content.decode()
    section = page[page.index('id="stranger"'):].partition("</section>")[0]
    for words in ("door.number", "Where it answers.", "text (secret)", "may suspend a running trial"):
        assert words in section
    assert "<option>stranger</option>" in member.get("/new/").content.decode()
    form = member.get("/api/v1/platforms/stranger/").json()["fields_of_section"]
    assert [field["name"] for field in form][:2] == ["address", "password"]


def test_new_experiment_loads_no_platform_and_the_form_of_one_loads_no_other(plug_in, member: Client) -> None:
    """All of them with their libraries take seconds, which the first visitor of a server would wait."""
    plug_in("stranger", STRANGER)
    plug_in("other", STRANGER)
    assert "<option>other</option>" in member.get("/new/").content.decode()
    assert not {"plugged_stranger", "plugged_other"} & set(sys.modules)
    assert member.get("/api/v1/platforms/stranger/").status_code == 200
    assert "plugged_stranger" in sys.modules
    assert "plugged_other" not in sys.modules


BROKEN = {
    "import error": ("import a_library_that_is_nowhere\n", "a_library_that_is_nowhere"),
    "exception on import": ("raise RuntimeError('half finished')\n", "half finished"),
    "exit on import": ("import sys\nsys.exit(3)\n", "cannot be imported: SystemExit"),
    "no class": ("", "has no &quot;Platform&quot;"),
    "no service": ("class Platform: ...\n", "not a subclass"),
    "missing method": (STRANGER + "Platform.__abstractmethods__ = frozenset({'run'})\n", "does not define run"),
    "wrong type": (STRANGER.replace("settings_model = Settings", "settings_model = dict"),
                   "not a subclass of ClusterSettings"),
    "wrong word": (STRANGER.replace("suspends_jobs = True", "suspends_jobs = 'yes'"), "not True or False"),
    "settings without description": (STRANGER.replace("door: Door | None = None", "door: object = object()").replace(
        "from typing", "from collections.abc import Callable\nfrom typing").replace("door: object = object()",
        "door: Callable[[], None] = print"), "cannot be described"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plug_in_harms_nobody_and_is_shown_with_its_reason(plug_in, member: Client, kind: str) -> None:
    text, reason = BROKEN[kind]
    plug_in("stranger", STRANGER)
    plug_in("broken", text)
    page = member.get("/clusters/").content.decode()
    [said] = re.findall(r'<p class="notice error" data-broken="(\w+)">(.*?)</p>', page)
    assert said[0] == "broken"
    assert reason in said[1]
    assert member.get("/platforms/").status_code == member.get("/new/").status_code == 200
    answer = member.get("/api/v1/platforms/broken/")
    assert answer.status_code == 404
    assert unescape(reason) in answer.json()["errors"][0]["message"]
    names = [each["name"] for each in member.get("/api/v1/platforms/").json()]
    assert "stranger" in names
    assert "local" in names
    assert "broken" not in names
    [warning] = platforms_can_be_used()
    assert (warning.id, str(warning.obj)) == ("nniweb.W001", "platform broken")
    assert unescape(reason) in warning.msg


def test_manage_check_tells_of_a_broken_platform_and_goes_on(plug_in, capsys) -> None:
    plug_in("broken", "raise RuntimeError('half finished')\n")
    call_command("check")
    assert '(nniweb.W001) Platform "broken"' in "".join(capsys.readouterr())


def test_without_broken_platforms_nothing_is_said(plug_in, member: Client) -> None:
    assert "data-broken" not in member.get("/clusters/").content.decode()
    assert platforms_can_be_used() == []

"""The registry of platforms."""

import sys
import textwrap
from importlib.metadata import EntryPoint

import pytest

from trainingservice import platforms
from trainingservice.base import TrainingService
from trainingservice.platforms import BrokenPlatform, UnknownPlatform, load_platform, platform_names


@pytest.fixture
def write_module(tmp_path, monkeypatch):
    """Writes a module that can be imported during the test."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        monkeypatch.delitem(sys.modules, name, raising=False)

    yield write
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture(autouse=True)
def forget_registrations(monkeypatch):
    monkeypatch.setattr(platforms, "_registered", {})
    monkeypatch.setattr(platforms, "_loaded", {})
    monkeypatch.setattr(platforms, "_warned", set())
    monkeypatch.delenv(platforms.EXTRA_PLATFORMS_VARIABLE, raising=False)


WHOLE = """
    from trainingservice.local.service import LocalTrainingService

    class Platform(LocalTrainingService):
        platform = "mine"
"""


def test_local_is_built_in():
    assert "local" in platform_names()
    assert issubclass(load_platform("local"), TrainingService)
    assert load_platform("local").platform == "local"


@pytest.mark.parametrize("name", platforms.BUILT_IN)
def test_each_of_ours_has_what_the_registry_asks_of_strangers(name):
    platforms.register("a stranger's", platforms.BUILT_IN[name])
    assert load_platform("a stranger's") is load_platform(name)


def test_an_unknown_name_is_answered_with_the_known_ones_and_the_nearest():
    with pytest.raises(UnknownPlatform, match=r'no platform named "locl".*mean "local".*Known platforms: .*local'):
        load_platform("locl")


@pytest.mark.parametrize(("name", "instead"), [("dlc", "Choose kubernetes"), ("hybrid", "Write the v2 form")])
def test_a_platform_of_nni_that_is_not_here_is_answered_with_the_way(name, instead):
    with pytest.raises(UnknownPlatform, match=f"is not here.*{instead}"):
        load_platform(name)


def test_names_of_old_configuration_files_lead_to_the_same_platform(write_module):
    write_module("pai_platform", WHOLE)
    platforms.register("openpai", "pai_platform:Platform")
    assert load_platform("pai") is load_platform("openpai")


def test_a_registered_class_is_found_and_can_be_taken_away_again(write_module):
    write_module("registered_platform", WHOLE)
    platforms.register("mine", "registered_platform:Platform")
    assert "mine" in platform_names()
    assert load_platform("mine").platform == "mine"
    platforms.unregister("mine")
    platforms.unregister("mine")
    assert "mine" not in platform_names()


def test_a_setting_names_further_platforms(write_module, monkeypatch, caplog):
    write_module("setting_platform", WHOLE)
    monkeypatch.setenv("NNIWEB_EXTRA_PLATFORMS", "mine=setting_platform:Platform, nonsense")
    assert "mine" in platform_names()
    assert "nonsense" in caplog.text


def test_an_entry_point_of_another_package_is_found(write_module, monkeypatch):
    write_module("packaged_platform", WHOLE)
    point = EntryPoint("packaged", "packaged_platform:Platform", platforms.ENTRY_POINT_GROUP)
    monkeypatch.setattr(platforms, "entry_points", lambda group: [point] if group == point.group else [])
    platforms._of_packages.cache_clear()
    assert "packaged" in platform_names()
    platforms._of_packages.cache_clear()


def test_a_package_that_is_installed_while_the_server_runs_is_found(write_module, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "later" not in platform_names()
    write_module("later_platform", WHOLE)
    made = tmp_path / "later-1.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: later\nVersion: 1.0\n")
    (made / "entry_points.txt").write_text(f"[{platforms.ENTRY_POINT_GROUP}]\nlater = later_platform:Platform\n")
    assert "later" in platform_names()


def test_packages_are_not_read_again_while_nothing_is_installed(monkeypatch):
    platform_names()
    monkeypatch.setattr(platforms, "entry_points", lambda group: pytest.fail("the packages were read again"))
    assert "local" in platform_names()


def test_a_missing_library_is_answered_with_how_to_install_it(write_module):
    write_module("needy_platform", "import azure.some_library_that_is_not_there\n")
    platforms.register("needy", "needy_platform:Platform")
    with pytest.raises(BrokenPlatform, match=r'"needy" needs the Python library "azure.*install .nniweb.azure'):
        load_platform("needy")


def test_a_missing_module_of_the_plug_in_itself_is_said_so():
    platforms.register("gone", "no_such_package.at_all:Platform")
    with pytest.raises(BrokenPlatform, match='there is no module "no_such_package"'):
        load_platform("gone")


def test_a_broken_plug_in_is_logged_and_does_not_hide_the_others(write_module, caplog):
    write_module("broken_platform", "raise RuntimeError('half finished')\n")
    platforms.register("broken", "broken_platform:Platform")
    names = platform_names()
    assert "broken" not in names
    assert "local" in names
    assert "half finished" in caplog.text
    platform_names()
    assert caplog.text.count("half finished") == 1


def test_a_class_that_forgets_a_member_is_refused_by_its_name(write_module):
    write_module("forgetful_platform", """
        from trainingservice.polling.service import PollingTrainingService

        class Platform(PollingTrainingService):
            platform = "forgetful"
            def start_job(self, job): ...
            def observe_jobs(self, jobs): ...
            def remove_experiment(self, experiment_id, jobs): ...
    """)
    platforms.register("forgetful", "forgetful_platform:Platform")
    with pytest.raises(BrokenPlatform, match="does not define rehearse, stop_job;"):
        load_platform("forgetful")


def test_something_that_is_no_training_service_is_refused(write_module):
    write_module("strange_platform", "class Platform: ...\n")
    platforms.register("strange", "strange_platform:Platform")
    platforms.register("nameless", "strange_platform:Other")
    with pytest.raises(BrokenPlatform, match="not a subclass"):
        load_platform("strange")
    with pytest.raises(BrokenPlatform, match='has no "Other"'):
        load_platform("nameless")

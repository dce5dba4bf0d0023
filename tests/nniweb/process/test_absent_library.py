"""A library is left out of what others load, and can be loaded afterwards."""

import sys

import pytest

from nniweb.process.absent_library import as_if_absent


@pytest.fixture(autouse=True)
def colorsys_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)


def test_a_library_is_not_found_in_the_block_and_found_after_it() -> None:
    with as_if_absent("colorsys"), pytest.raises(ImportError):
        import colorsys
    import colorsys

    assert sys.modules["colorsys"] is colorsys


def test_one_that_is_loaded_is_found() -> None:
    import colorsys

    with as_if_absent("colorsys"):
        import colorsys as found
    assert found is colorsys


def test_it_can_be_loaded_after_an_error_in_the_block() -> None:
    with pytest.raises(ZeroDivisionError), as_if_absent("colorsys"):
        1 / 0  # noqa: B018
    assert "colorsys" not in sys.modules

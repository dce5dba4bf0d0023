"""Patterns with stars, question marks and brackets."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialkeeper.wildcards import DEEP_STAR, STAR, Step, Wildcards, any_character, shell_wildcards

PIECES = ["a", "b", "-", "]", "*", "?", "[ab]", "[!a]", "[", "[a-c]", "[]a]", "[!]a]", "[a-]", "\\", "ä"]
PATTERNS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@given(pattern=PATTERNS, text=st.text("abc-][ä\\", max_size=8))
def test_a_pattern_means_what_it_means_to_the_standard_library(pattern, text):
    assert shell_wildcards(pattern).matches(text) == fnmatchcase(text, pattern)


class CountingText(str):
    """Counts the characters that are looked at."""

    looked_at = 0

    def __iter__(self):
        for character in str.__iter__(self):
            self.looked_at += 1
            yield character


@pytest.mark.parametrize("pattern", ["*a" * 30 + "*b*", "?*" * 30 + "b?", "[ab]*" * 30 + "[c]"])
def test_each_character_of_the_text_is_looked_at_once(pattern):
    text = CountingText("a" * 100)
    assert not shell_wildcards(pattern).matches(text)
    assert text.looked_at <= 100


def test_a_star_stays_in_its_folder_and_a_deep_one_does_not():
    shallow = Wildcards([Step(0, "a"), Step(STAR, "b")])
    deep = Wildcards([Step(0, "a"), Step(DEEP_STAR, "b")])
    assert (shallow.matches("axb"), shallow.matches("a/b")) == (True, False)
    assert (deep.matches("axb"), deep.matches("a/x/b")) == (True, True)
    assert not Wildcards([any_character(0)]).matches("/")
    assert not Wildcards([Step(0, None, (("!", "~"),))]).matches("/")


def test_an_optional_step_may_be_missing_with_what_precedes_it():
    pattern = Wildcards([Step(DEEP_STAR, "/", optional=True), Step(0, "a")])
    texts = ("a", "/a", "b/a", "b/c/a", "ba", "b/ca", "")
    assert [text for text in texts if pattern.matches(text)] == ["a", "/a", "b/a", "b/c/a"]


def test_a_pattern_longer_than_the_text_is_no_work():
    text = CountingText("a" * 10)
    assert not Wildcards([any_character(0)] * 100_000).matches(text)
    assert text.looked_at == 0

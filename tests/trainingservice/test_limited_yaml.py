"""What YAML from people and clusters may cost, and that there is one reader of it."""

import ast
import re
import time
import tracemalloc
from pathlib import Path

import pytest

from nniweb.experiments.config import ConfigInvalid
from nniweb.experiments.config.yaml_positions import read_text
from trainingservice.frameworkcontroller.template import read_template
from trainingservice.kubernetes_base.api import AccessUnreadable, ApiAccess, KubernetesApi
from trainingservice.limited_yaml import (
    DEEPEST_NESTING,
    LARGEST_NUMBER,
    LONGEST_TEXT,
    YamlRefused,
    read_yaml,
    read_yaml_file,
    yaml_text,
)

REPOSITORY = Path(__file__).resolve().parents[2]
LAUGHS = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12))
MERGES = "a0: &a0 {" + ", ".join(f"k{key}: 1" for key in range(300)) + "}\n" + "".join(
    f"a{level}: &a{level}\n  <<: *a{level - 1}\n" for level in range(1, 300))
ATTACKS = {
    "aliases of aliases": (LAUGHS, "more than 50000 keys and values"),
    "a value that holds itself": ("a: &a [*a, *a]", "nested more than|more than 50000"),
    "a mapping that takes in itself": ("a: &a\n  <<: *a\n  b: 1", "nested more than|more than 50000"),
    "mappings taken in again and again": (MERGES, "more than 50000 keys and values"),
    "one mapping taken in a hundred thousand times":
        ("a: &a {}\nb:\n  <<: [" + ", ".join(["*a"] * 100_000) + "]", "more than 50000 keys and values"),
    "many keys": ("".join(f"k{key}: 1\n" for key in range(25_001)), "more than 50000 keys and values"),
    "many items": ("a: [" + "1," * 400_000 + "1]", "more than 50000 keys and values"),
    "brackets within brackets": ("a: " + "[" * 400_000, "more than 50 levels deep"),
    "braces within braces": ("a: " + "{a: " * 200_000, "more than 50 levels deep"),
    "lists within lists": ("a:\n" + "- " * 400_000 + "1", "more than 50 levels deep"),
    "a number": ("a: " + "9" * 900_000, "is a number of 900000 characters"),
    "a number by its tag": ("a: !!int '" + "9" * 900_000 + "'", "is a number of 900000 characters"),
    "a number in base 16": ("a: 0x" + "f" * 900_000, "is a number of 900002 characters"),
    "a number in base 60": ("a: 1" + ":1" * 400_000, "is a number of 800001 characters"),
    "a fraction in base 60": ("a: 1" + ":1" * 400_000 + ".5", "is a number of 800003 characters"),
    "ten megabytes": ("a: " + "x" * 10_000_000, "at most 1000000 are read"),
    "a tag": ("a: !!python/object/apply:os.system [true]", "."),
    "a tag of a value": ("a: !!python/name:os.system", "tags such as"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_whatever_a_text_stands_for_it_is_refused_soon_and_in_little_memory(name: str) -> None:
    text, words = ATTACKS[name]
    began = time.thread_time()
    if name == "a tag":  # of a list: nothing of a tag counts but for a single value
        assert read_yaml(text) == {"a": [True]}
    else:
        with pytest.raises(YamlRefused, match=words):
            read_yaml(text)
    assert time.thread_time() - began < 10  # about one second; the slowest took 70 without limits


def test_aliases_take_no_more_memory_than_the_limits_allow() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(YamlRefused):
            read_yaml(LAUGHS)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_what_stays_within_the_limits_is_read_and_shares_nothing() -> None:
    data = read_yaml("base: &base {lr: 1e-3, on: [1, 0x10, 1:30], when: 2024-01-01}\ncopy: *base\n"
                     "other:\n  <<: *base\n  lr: 2\n")
    assert data["copy"] == {"lr": 0.001, "on": [1, 16, 90], "when": "2024-01-01"}
    assert data["other"] == {"lr": 2, "on": [1, 16, 90], "when": "2024-01-01"}
    data["base"]["on"].append(5)
    assert data["copy"]["on"] == data["other"]["on"] == [1, 16, 90]
    assert read_yaml("") is None
    assert read_yaml("[a, b]") == ["a", "b"]
    assert read_yaml("a: " + "[" * (DEEPEST_NESTING - 1) + "]" * (DEEPEST_NESTING - 1))
    assert len(read_yaml("a: &a [" + "1," * 9 + "1]\nb: [" + "*a," * 4000 + "*a]")["b"]) == 4001  # 44,026 of 50,000
    assert read_yaml(f"a: {LARGEST_NUMBER - 1}")["a"] == LARGEST_NUMBER - 1


def test_a_problem_has_its_place() -> None:
    with pytest.raises(YamlRefused, match=r"^line 3, column 3: a\.b: is given twice"):
        read_yaml("a:\n  b: 1\n  b: 2\n")
    with pytest.raises(YamlRefused, match="line 2, column 4: b: must be a finite number"):
        read_yaml("a: 1\nb: .inf\n")


def test_a_config_with_a_key_given_twice_ten_thousand_times_gets_a_bearable_answer() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        read_text("a: 1\n" * 10_000)
    assert len(caught.value.errors) == 20


def test_json_that_is_nested_too_deeply_or_holds_endless_numbers_gets_a_sentence() -> None:
    for text in ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", '{"a": ' * 100_000 + "1" + "}" * 100_000):
        with pytest.raises(ConfigInvalid, match="levels deep"):
            read_text(text)
    with pytest.raises(ConfigInvalid, match="is a number of 900000 characters"):
        read_text('{"a": ' + "9" * 900_000 + "}")
    with pytest.raises(ConfigInvalid, match="more than 100000 values"):
        read_text('{"a": [' + "1," * 400_000 + "1]}")


def test_a_file_is_not_read_beyond_the_limit_nor_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "large.yml").write_text("# " + "x" * (4 * LONGEST_TEXT))
    with pytest.raises(OSError, match="more than 4000000 bytes"):
        read_yaml_file(tmp_path / "large.yml")
    (tmp_path / "link.yml").symlink_to("/etc/hostname")
    with pytest.raises(OSError, match="link"):
        read_yaml_file(tmp_path / "link.yml")
    (tmp_path / "latin.yml").write_bytes(b"a: \xe4")
    with pytest.raises(YamlRefused, match="UTF-8"):
        read_yaml_file(tmp_path / "latin.yml")


def test_a_template_and_a_kubeconfig_are_read_within_the_limits_too(tmp_path: Path) -> None:
    (tmp_path / "bomb.yml").write_text(LAUGHS)
    with pytest.raises(ValueError, match="configPath: .* more than 50000 keys and values"):
        read_template(tmp_path / "bomb.yml")
    with pytest.raises(AccessUnreadable, match="more than 50000 keys and values"):
        _ = KubernetesApi(ApiAccess(kubeconfig=tmp_path / "bomb.yml")).address


def test_no_other_code_reads_yaml() -> None:
    """PyYAML's readers have no limits: whoever needs one takes the one that has."""
    readers = {"load", "safe_load", "full_load", "unsafe_load", "load_all", "safe_load_all", "compose", "compose_all",
               "parse", "scan", "SafeLoader", "CSafeLoader", "Loader", "CLoader", "FullLoader", "UnsafeLoader",
               "BaseLoader"}
    found = set()
    for package in ("nniweb", "trainingservice", "trialkeeper"):
        for file in (REPOSITORY / package).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "yaml" in text else ():
                is_from = isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("yaml", "ruamel")
                if is_from or isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) \
                        and node.value.id == "yaml" and node.attr in readers:
                    found.add(str(file.relative_to(REPOSITORY)))
    assert found == {"trainingservice/limited_yaml.py"}


@pytest.mark.parametrize("text", ["1e5", "1E-3", "1.e5", ".5e3", "12e4567", "1e400", "yes", "0o17", "12:30", "a\nb",
                                  "a\n", "x\x85y", "\u2028", "\u2029x", "a\r\nb", "\ufeffa", "\U0001f600", ""])
def test_what_is_written_is_read_as_the_same_values(text: str) -> None:
    for style in ({}, {"default_flow_style": True}, {"default_flow_style": None, "width": 40}):
        inner = {"c": [text, 1e-05, 2**53 + 1]}
        for value in (text, [text, "x" * 50], {"a": {text or "b": text}}, {text or "b": inner}):
            assert read_yaml(yaml_text({"value": value}, **style)) == {"value": value}


def test_no_other_code_writes_yaml_for_the_reader() -> None:
    """What PyYAML's own writers leave without quotes may be a number to the reader here."""
    found = {str(file.relative_to(REPOSITORY)) for package in ("nniweb", "trainingservice", "trialkeeper")
             for file in (REPOSITORY / package).rglob("*.py")
             if re.search(r"\byaml\.(safe_)?dump", file.read_text(encoding="utf-8"))}
    assert found == {"trainingservice/limited_yaml.py", "trainingservice/openpai/document_text.py"}, "OpenPAI reads it"

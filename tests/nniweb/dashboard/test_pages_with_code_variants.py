"""Pages show what a trial changes in the code, and where two trials differ in it."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from nniweb.dashboard.experiment_tabs import shown_variants
from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.variants.stored_variants import keep_variant
from tests.nniweb.dashboard.test_page_words import in_node
from trainingservice.variants.code_variant import ChangedFile, variant_content


@pytest.fixture
def varied(make_experiment: Any) -> Experiment:
    """Trial 0 has changed nothing, 1 and 2 something, 3 the same as 2."""
    experiment: Experiment = make_experiment(config={"codeVariants": {"paths": ["*"], "maxBytes": 65536}})
    first = ChangedFile("trial.py", "lr = 0.2\n<script>alert(1)</script>\n", "lr = 0.1\n")
    second = ChangedFile("trial.py", "lr = 0.3\n", "lr = 0.1\n")
    variants = [None, *(keep_variant(variant_content("b" * 64, [one]), timezone.now())
                        for one in (first, second, second))]
    for place, variant in enumerate(variants):
        Trial.objects.create(experiment=experiment, sequence_id=place, created_at=timezone.now(), variant=variant)
    return experiment


@pytest.fixture
def page(client: Client, admin: Any) -> Any:
    client.force_login(admin)
    return lambda address: client.get(address).content.decode()


def words(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html))


def test_the_trials_page_shows_the_diff_escaped_and_marked(varied, page) -> None:
    plain, changed, *_ = Trial.objects.order_by("sequence_id")
    assert "Changes to the code" not in page(f"/trials/{plain.public_id}/")
    html = page(f"/trials/{changed.public_id}/")
    assert "<script>alert(1)" not in html
    assert '<span class="removed">-lr = 0.1\n</span><span class="added">+lr = 0.2\n</span>' in html
    assert "+<script>alert(1)</script>" in words(html)
    assert changed.variant.sha256[:8] in html


def test_the_page_shows_a_bounded_number_of_lines(varied, page, monkeypatch) -> None:
    monkeypatch.setattr(shown_variants, "MOST_LINES", 2)
    monkeypatch.setattr(shown_variants, "LONGEST_LINE", 3)
    html = page(f"/trials/{Trial.objects.get(sequence_id=1).public_id}/")
    assert "2 more lines, which this page does not show." in html
    assert "-lr …\n" in words(html)


def test_a_diff_whose_file_is_gone_says_so(varied, page) -> None:
    trial = Trial.objects.get(sequence_id=1)
    trial.variant.removed_at = timezone.now()
    trial.variant.save()
    assert "Retention removed it, with the copy of the code" in page(f"/trials/{trial.public_id}/")


def test_the_table_of_trials_marks_changed_code_and_finds_it(varied, page) -> None:
    html = page(f"/experiments/{varied.public_id}/trials/")
    hashes = [trial.variant.sha256[:8] if trial.variant else "" for trial in Trial.objects.order_by("sequence_id")]
    assert re.findall(r'data-cell="variant">(\w*)<', html)[3::-1] == hashes
    for text, count in [("code_variant = none", 1), ("code_variant != none", 3), (f"code_variant ~ {hashes[2]}", 2)]:
        assert page(f"/experiments/{varied.public_id}/trials/?filter={text}").count('data-cell="variant"') == count + 1


def test_compared_trials_show_where_their_code_differs(varied, page) -> None:
    html = page(f"/experiments/{varied.public_id}/compare/?trials=1,2,3,0")
    text = words(html)
    assert "From the code of trial 1 to that of trial 2" in text
    assert "-lr = 0.2\n-<script>alert(1)</script>\n+lr = 0.3" in text
    assert "From the code of trial 1 to that of trial 0" in text
    assert "<script>alert(1)" not in html
    assert "From the code" not in words(page(f"/experiments/{varied.public_id}/compare/?trials=2,3"))


def test_without_changes_to_the_code_tables_have_no_column_for_it(make_experiment, page) -> None:
    experiment = make_experiment()
    assert 'data-cell="variant"' not in page(f"/experiments/{experiment.public_id}/trials/")


def test_the_dialogs_of_a_rerun_say_that_the_changed_code_is_kept(tmp_path: Path, varied: Experiment, page: Any
                                                                  ) -> None:
    said = in_node(tmp_path, "lib/rerun_words.js", "keptCode", (
        '[{variant: {sha256: "a"}}, {variant: null}].map(keptCode)'))
    assert said == [" The new trial keeps the changes to the code of this one.", ""]
    changed = Trial.objects.get(experiment=varied, sequence_id=1)
    [data] = re.findall(r'<script id="page-data" type="application/json">(.*?)</script>',
                        page(f"/trials/{changed.public_id}/"))
    assert json.loads(data)["trial"]["variant"]["sha256"] == changed.variant.sha256
    for dialog in ("pages/trial.js", "ui/rerun_form.js"):
        assert "${keptCode(trial)}" in (tmp_path / dialog).read_text()

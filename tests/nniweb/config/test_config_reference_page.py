from pathlib import Path

from nniweb.experiments.config.document import ExperimentDocument
from nniweb.experiments.config.fields.reference_page import render
from nniweb.experiments.config.fields.walk import model_fields
from nniweb.experiments.config.v1_conversion import V1_DROPPED, V1_FIELDS

PAGE = Path(__file__).parents[3] / "docs" / "experiment-config.md"


def test_the_page_in_docs_is_what_the_models_say_today() -> None:
    assert PAGE.read_text() == render(), (
        "run: python -m nniweb.experiments.config.fields.reference_page > docs/experiment-config.md")


def test_the_page_names_every_field_of_both_forms() -> None:
    page = render()
    for field in model_fields((ExperimentDocument,)):
        assert f"| `{field}` |" in page
    for field in [*V1_FIELDS, *V1_DROPPED]:
        assert f"`{field}`" in page or f"`{field.partition('.')[2]}`" in page

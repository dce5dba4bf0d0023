"""Sizes of memory in files: megabytes, or texts with a unit."""

import pytest
from pydantic import TypeAdapter, ValidationError

from trainingservice.local.config import LocalTrialOptions
from trainingservice.memory_size import MOST, Megabytes
from trainingservice.refused_values import refusals

SIZE: TypeAdapter[int] = TypeAdapter(Megabytes)


@pytest.mark.parametrize(("given", "megabytes"), [
    (5, 5), ("5", 5), ("4gb", 4096), ("4 GiB", 4096), ("512M", 512), ("1b", 1), ("1.5k", 1), (MOST, MOST),
    (f"{MOST}mb", MOST)])
def test_a_size_is_whole_megabytes(given: object, megabytes: int) -> None:
    assert SIZE.validate_python(given) == megabytes


@pytest.mark.parametrize("given", [MOST + 1, 10 ** 30, 10 ** 400, 1e30, f"{MOST + 1}mb", "9" * 400 + "gb"])
def test_what_no_machine_has_is_refused_in_every_form(given: object) -> None:
    with pytest.raises(ValidationError) as caught:
        LocalTrialOptions.model_validate({"trialMemorySize": given})
    [(field, message)] = refusals(caught.value)
    assert (field, message.split(" (")[0]) == ("trialMemorySize", "is more than any machine has")


@pytest.mark.parametrize("given", ["", "-1", str(10 ** 30), "4 pb", "1e3", "nan", "٤gb", "4ｇb", float("nan"), 1.5])
def test_what_is_no_size_is_refused(given: object) -> None:
    with pytest.raises(ValidationError):
        LocalTrialOptions.model_validate({"trialMemorySize": given})

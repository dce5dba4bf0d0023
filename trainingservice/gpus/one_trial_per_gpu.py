"""``maxTrialNumberPerGpu`` on platforms that cannot let several trials share a GPU: only 1 is taken."""

from __future__ import annotations

from pydantic import AfterValidator, ValidationInfo


def one_trial_per_gpu(why: str) -> AfterValidator:
    """For an integer field, in ``Annotated``. ``why``: a clause, and what to do instead."""

    def check(value: int, info: ValidationInfo) -> int:
        # only where a file is read: what was stored before this was refused stays readable
        if value != 1 and "must_exist" in (info.context or {}):
            raise ValueError(f"must be 1 here, because {why}")
        return value

    return AfterValidator(check)

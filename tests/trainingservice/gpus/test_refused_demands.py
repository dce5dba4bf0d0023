"""What was refused a moment ago is refused again without a look at the machines."""

from trainingservice.gpus.refused_demands import HOLDS, RefusedDemands
from trainingservice.reasons import Reason
from trainingservice.trial_job import GpuDemand

GB = 1 << 30
WHY = Reason("gpu_held", machine="ada", asked=1, free=0, held=[], memory=6 * GB)


def needing(gigabytes: int) -> GpuDemand:
    return GpuDemand(memory=gigabytes * GB)


def test_who_needs_as_much_or_more_is_refused_and_who_needs_less_is_looked_at() -> None:
    refused = RefusedDemands()
    assert refused.why(1, needing(6)) is None
    refused.note(1, needing(6), WHY)
    assert refused.why(1, needing(6)) == WHY
    assert "with 9.0 GB left" in (refused.why(1, needing(9)) or "")
    for other in ((1, needing(5)), (2, needing(9)), (1, GpuDemand()), (1, GpuDemand(alone=True))):
        assert refused.why(*other) is None


def test_it_holds_for_a_moment_and_until_there_may_be_room() -> None:
    now = [0.0]
    refused = RefusedDemands(lambda: now[0])
    refused.note(1, GpuDemand(), Reason("machines_busy", asked=1, machines=[]))
    assert refused.why(1, GpuDemand()) is not None
    now[0] = HOLDS + 0.1
    assert refused.why(1, GpuDemand()) is None
    refused.note(1, GpuDemand(), WHY)
    refused.forget()
    assert refused.why(1, GpuDemand()) is None

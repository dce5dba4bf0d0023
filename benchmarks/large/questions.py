"""What people and programs ask an installation, and how long an answer may take, as docs/performance.md has it."""

from __future__ import annotations

from dataclasses import dataclass

#: Milliseconds: as for an experiment of 100,000 trials.
PAGE_LIMIT, DATA_LIMIT, LIST_LIMIT = 50.0, 500.0, 300.0


@dataclass(frozen=True)
class Question:
    """``address``: {e} stands for an experiment, {t} for a trial of it. ``limit``: milliseconds."""

    what: str
    limit: float
    address: str

    def of(self, experiment: str, trial: str) -> str:
        return self.address.format(e=experiment, t=trial)


def _rest(below: str) -> str:
    return f"/api/v1/experiments/{{e}}/{below}"


#: Of the whole installation.
OF_ALL = (
    Question("list of experiments", LIST_LIMIT, "/api/v1/experiments/"),
    Question("list of all experiments", LIST_LIMIT, "/api/v1/experiments/?page_size=1000"),
    Question("search for an experiment", LIST_LIMIT, "/api/v1/experiments/?q=large+7"),
    Question("experiments that need attention", LIST_LIMIT, "/api/v1/experiments/?state=attention"),
    Question("home page", DATA_LIMIT, "/"),
    Question("scrape of /metrics", DATA_LIMIT, "/metrics"),
    Question("page of usage, 30 days", DATA_LIMIT, "/usage/?days=30"),
    Question("page of usage, all days", DATA_LIMIT, "/usage/?days=all"),
)
#: Of one experiment.
OF_ONE = (
    Question("experiment", DATA_LIMIT, _rest("")),
    Question("experiment's page", DATA_LIMIT, "/experiments/{e}/"),
    Question("first page of trials", PAGE_LIMIT, _rest("trials/")),
    Question("page of the table of trials", DATA_LIMIT, "/experiments/{e}/trials/"),
    Question("best trials", PAGE_LIMIT, _rest("trials/?order=-final_value")),
    Question("filter by a result", DATA_LIMIT, _rest("trials/?filter=result > 0.999")),
    Question("filter by a parameter", DATA_LIMIT, _rest("trials/?filter=x > 0.999")),
    Question("search for a text in trials", DATA_LIMIT, _rest("trials/?filter=nothing-has-this")),
    Question("chart of results", DATA_LIMIT, _rest("chart/")),
    Question("intermediate results", DATA_LIMIT, _rest("series/?which=top")),
    Question("comparison of five trials", DATA_LIMIT, "/experiments/{e}/compare/?trials=0,1,2,3,4"),
    Question("parameters", DATA_LIMIT, _rest("parameters/")),
    Question("importance", 2000.0, _rest("parameters/importance/")),
    Question("timeline", 1000.0, _rest("timeline/")),  # half of the time that its page has
    Question("failures", DATA_LIMIT, _rest("failures/")),
    Question("trial", PAGE_LIMIT, "/api/v1/trials/{t}/"),
    Question("trial's page", DATA_LIMIT, "/trials/{t}/"),
    Question("metrics of a trial", PAGE_LIMIT, "/api/v1/trials/{t}/metrics/"),
)

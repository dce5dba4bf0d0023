"""The tools. Each is a row here; docs/mcp.md lists them, and tests walk them as everybody."""

from nniweb.mcp_server.tools import experiments, following, launching, limits, proposing, results, steering
from nniweb.mcp_server.tools.tool import Tool

TOOLS = (
    Tool("list_experiments", experiments.ListArguments, experiments.ExperimentList, experiments.list_experiments,
         asks="GET experiments/"),
    Tool("inspect_experiment", experiments.InspectArguments, experiments.Inspection, experiments.inspect_experiment,
         asks="GET experiments/ID/, failures/, proposals/"),
    Tool("launch", launching.LaunchArguments, launching.LaunchAnswer, launching.launch,
         asks="POST experiments/; dry run: POST experiments/check/", changes=True),
    Tool("propose", proposing.ProposeArguments, proposing.ProposeAnswer, proposing.propose,
         asks="POST experiments/ID/proposals/; dry run: GET experiments/ID/forecast/", changes=True),
    Tool("wait", following.WaitArguments, following.Changes, following.wait,
         asks="GET experiments/ID/results/"),
    Tool("results", results.ResultsArguments, results.Table, results.results,
         asks="GET experiments/ID/trials/"),
    Tool("compare", results.CompareArguments, results.Comparison, results.compare,
         asks="GET trials/ID/"),
    Tool("tail_log", following.LogArguments, following.LogTail, following.tail_log,
         asks="GET trials/ID/output/, experiments/ID/log/"),
    Tool("steer_experiment", steering.SteerArguments, steering.SteerAnswer, steering.steer_experiment,
         asks="POST experiments/ID/actions/ACTION/", changes=True, is_destructive=True, is_idempotent=True),
    Tool("cancel_trials", steering.CancelArguments, steering.CancelAnswer, steering.cancel_trials,
         asks="POST experiments/ID/trials/actions/stop/", changes=True, is_destructive=True, is_idempotent=True),
    Tool("budget", limits.BudgetArguments, limits.Budget, limits.budget,
         asks="GET account/, usage/, quotas/, budgets/"),
)
BY_NAME = {tool.name: tool for tool in TOOLS}

"""What the keeper and the servers that speak with it agree on: names, message shapes, version.

Everything that both sides must spell alike stands here and nowhere else. The prose is in
``docs/keeper-protocol.md``. Standard library only, Python 3.8 syntax.
"""

from typing import Any, Dict, List, Optional, Union

try:  # TypedDict is in typing since Python 3.8
    from typing import TypedDict
except ImportError as error:  # pragma: no cover
    raise SystemExit("the trial keeper needs Python 3.8 or newer") from error

#: Version of the wire. A server accepts this one and the one before.
PROTOCOL_VERSION = 1
#: Every path of the protocol begins with this.
URL_PREFIX = "/api/trialkeeper/v1/"

# --- environment of the keeper -------------------------------------------------------------
#: Comma-separated base addresses of the server (``http://host:port``), tried in order.
ENV_URLS = "NNI_KEEPER_URLS"
#: A JSON file ``{"urls": [...]}`` re-read before each attempt; its addresses come first.
ENV_URL_FILE = "NNI_KEEPER_URL_FILE"
#: The bearer token, or the path of a 0600 file that holds it. Never on a command line.
ENV_TOKEN = "NNI_KEEPER_TOKEN"
ENV_TOKEN_FILE = "NNI_KEEPER_TOKEN_FILE"
#: A PEM file with the certificate authority of the server, where it is private.
ENV_CA = "NNI_KEEPER_CA"
#: The id under which the keeper reports: the attempt's job name.
ENV_JOB = "NNI_TRIAL_JOB_ID"
#: The attempt's folder. Default: ``<temporary folder>/nniweb-<user id>/<job name>``.
ENV_FOLDER = "NNI_KEEPER_FOLDER"
#: Path of a named pipe; one byte written to it makes the keeper look for news at once.
#: Set by the keeper in the environment of the trial, used by our ``nni`` module.
ENV_WAKE = "NNI_KEEPER_WAKE"
#: Number of this replica where a job runs the keeper several times; "0" or unset reports,
#: any other only listens for orders.
ENV_REPLICA = "NNI_KEEPER_REPLICA"

#: Folder that outlives the container, where the platform may end a run of the trial at any time and begin the next one
#: in another container: the journal lies there, and goes on in each run. Unset: an attempt is run once.
ENV_LASTING = "NNI_KEEPER_LASTING"

#: Set where the job stays as a place when its attempt has ended: so many seconds it waits for the next one.
ENV_PLACE = "NNI_KEEPER_PLACE"
#: Folder for the folders of a place's later attempts, each of which is removed when its attempt has ended. Unset: they
#: are beside that of the first one, and stay where ENV_FOLDER names that.
ENV_PLACE_FOLDER = "NNI_KEEPER_PLACE_FOLDER"
#: When the platform will end the job of a place, in seconds since 1970; empty or unset: it will not.
ENV_PLACE_UNTIL = "NNI_KEEPER_PLACE_UNTIL"

#: "1" where the attempt's folder is on a storage from which another user collects its journal: files that hold no
#: secret can then be read by everybody.
ENV_READABLE = "NNI_KEEPER_READABLE"

# --- places --------------------------------------------------------------------------------
#: Why a place is given back: nothing came, its trials failed, the job's time limit is near, something of a trial is
#: left. One that is idle takes what has come for it meanwhile; the others take nothing more.
LEAVES_IDLE, LEAVES_AFTER_FAILURES, LEAVES_AT_LIMIT, LEAVES_UNCLEAN = "idle", "failures", "limit", "unclean"
LEAVES = (LEAVES_IDLE, LEAVES_AFTER_FAILURES, LEAVES_AT_LIMIT, LEAVES_UNCLEAN)
#: Seconds for which a server keeps a place waiting for its answer at most.
MOST_WAITING = 15.0

# --- environment of the trial --------------------------------------------------------------
#: The folder in which a trial leaves its checkpoints, and finds the one with which it goes on.
ENV_CHECKPOINTS = "NNI_CHECKPOINT_DIR"

# --- files in the attempt's folder ---------------------------------------------------------
#: What to run (JobDocument); written by the platform, or fetched by the keeper.
JOB_FILE = "job.json"
#: Numbered, append-only record of all that must be reported.
JOURNAL_FILE = "journal.jsonl"
#: The highest entry number a server has acknowledged (decimal text); also written by a
#: platform that collects the journal as a file.
ACCEPTED_FILE = "accepted"
#: Orders put there by a platform that cannot be called (JSON list), obeyed once.
ORDERS_FILE = "orders.json"
#: ``{"pid", "start_time", "machine_id", "host"}`` of the keeper; locked while it lives.
KEEPER_FILE = "keeper.json"
#: ``{"pid", "start_time", "working_directory"}`` of the trial's first process.
TRIAL_FILE = "trial.json"
#: Path of the control group (cgroup v2) that holds the trial's processes (text); not there where none could be made.
GROUP_FILE = "control_group"
#: ``{"exit_code", "signal", "reason", "message", "duration", "at"}``: how the trial ended; of a rank of several also
#: ``last_lines``, which it wrote.
EXIT_FILE = "exit.json"
#: ``{"urls", "token", "url_file", "ca_file", "relay_file"}`` (0600): how the keeper reaches the server, for
#: keepers that are started by the machine's agent and for those that finish an attempt.
ACCESS_FILE = "access.json"
#: Of a trial with several nodes: which of them this is, and how its ranks find each other (NodeDocument).
NODE_FILE = "node.json"
#: Id of the installation that gave the first good answer (text).
INSTALLATION_FILE = "installation"
#: By which way the keeper was answered last: "direct", "relay" (the machine's agent) or, written by a platform that
#: collects the journal, "files" (text).
WAY_FILE = "way_home"
#: A tombstone: where it exists nothing is started any more.
CANCELED_FILE = "canceled"
#: Why the attempt waits on its machine before it begins (a sentence), while it does. Where no keeper lives beside it
#: the machine's agent starts one again.
WAITS_FILE = "waits_for"
STDOUT_FILE = "stdout"
STDERR_FILE = "stderr"
KEEPER_LOG_FILE = "keeper.log"
WAKE_FILE = "wake"
#: Folder for NNI_SYS_DIR and NNI_OUTPUT_DIR: parameter files, ``.nni/metrics``, trial.log.
NNI_FOLDER = "nni"
#: Working directory of the trial where the code is copied.
CODE_FOLDER = "code"
#: The trial's own folder for checkpoints (ENV_CHECKPOINTS), in the attempt's folder.
CHECKPOINTS_FOLDER = "checkpoints"
#: In that folder: the name of the latest checkpoint (text). Written by whoever completes one.
LATEST_FILE = "latest"
#: The name of the checkpoint that is what a trial has saved for others to load (FoldersDocument).
HANDED_ON = "save_checkpoint_dir"
#: In the attempt's folder: what such a trial loads (LOAD_FOLDER) and saves to (SAVE_FOLDER). They are there when
#: something is in them.
HANDED_ON_FOLDER, LOAD_FOLDER, SAVE_FOLDER = "handed_on", "load", "save"

#: First parameters; those of later indices are ``parameter_<index>.cfg``.
PARAMETER_FILE = "parameter.cfg"
METRICS_FILE = ".nni/metrics"


def parameter_file_name(index: int) -> str:
    """Name of the file in which a trial's SDK looks for the parameters of ``index``."""
    return PARAMETER_FILE if index == 0 else "parameter_%d.cfg" % index


# --- limits --------------------------------------------------------------------------------
#: A report's body after decompression, in bytes. Servers refuse more with 413.
MAX_REPORT_BYTES = 4 * 1024 * 1024
#: Reports without entries that one request may bring for several keepers.
MOST_SEVERAL_REPORTS = 500
#: Keepers gather entries into reports of about this size.
REPORT_BATCH_BYTES = 512 * 1024
#: NNI's own limit for one metric: shorter than this many bytes.
MAX_METRIC_BYTES = 1_000_000
#: Most bytes of one chunk of a checkpoint. Files are cut at multiples of it.
CHUNK_BYTES = 8 * 1024 * 1024
#: Most bytes of a checkpoint's manifest, and most files and folders in it.
MAX_MANIFEST_BYTES, MAX_CHECKPOINT_FILES = 16 * 1024 * 1024, 50_000
#: Most bytes of a code variant's JSON.
MAX_VARIANT_BYTES = 4 * 1024 * 1024
#: Hashes in one question for missing chunks.
MAX_ASKED_CHUNKS = 10_000
#: One piece of output.
MAX_OUTPUT_PIECE_BYTES = 64 * 1024

#: Exit code of a trial that was told to end (128 + SIGTERM), also where the program that heard it ends by itself.
TOLD_TO_END = 143

# --- words ---------------------------------------------------------------------------------
STARTED, METRIC, OUTPUT, CHECKPOINT, ENDED = "started", "metric", "output", "checkpoint", "ended"
ENTRY_TYPES = (STARTED, METRIC, OUTPUT, CHECKPOINT, ENDED)

#: What a checkpoint entry tells: one is complete and its chunks are with the server; one was put back in place before
#: the command started; one could be neither kept nor put back.
SAVED, RESTORED, FAILED = "saved", "restored", "failed"
CHECKPOINT_EVENTS = (SAVED, RESTORED, FAILED)
#: Why it could not: it has more than ``max_bytes`` bytes; more than MAX_CHECKPOINT_FILES files, or a manifest that is
#: too long; a link, or another thing that is neither file nor folder; it was changed or removed while it was read; it
#: cannot be read; the server does not take it; the server does not have it (any more); what came has another hash;
#: it cannot be written here (a full disk); the trial ended before it was complete.
TOO_LARGE, TOO_MANY_FILES, NOT_PLAIN, CHANGED, UNREADABLE = (
    "too_large", "too_many_files", "not_plain", "changed", "unreadable")
NOT_TAKEN, MISSING, DAMAGED, NO_ROOM, INCOMPLETE = "not_taken", "missing", "damaged", "no_room", "incomplete"
CHECKPOINT_PROBLEMS = (TOO_LARGE, TOO_MANY_FILES, NOT_PLAIN, CHANGED, UNREADABLE, NOT_TAKEN, MISSING, DAMAGED, NO_ROOM,
                       INCOMPLETE)

PERIODICAL, FINAL, REQUEST_PARAMETER = "PERIODICAL", "FINAL", "REQUEST_PARAMETER"
METRIC_KINDS = (PERIODICAL, FINAL, REQUEST_PARAMETER)

#: Why a trial ended: its process ended by itself; an order or a signal to the keeper stopped
#: it; it ran longer than max_trial_duration; it could not be started; nobody knows (its
#: keeper was killed and came back, or somebody else judged what was left); an order ended it
#: so that it goes on later from its last checkpoint.
EXITED, STOPPED, TIME_LIMIT, NOT_STARTED, LOST = "exited", "stopped", "time_limit", "not_started", "lost"
FROZEN = "frozen"
END_REASONS = (EXITED, STOPPED, TIME_LIMIT, NOT_STARTED, LOST, FROZEN)

#: What keeps a GPU from working: the driver cannot open it (it has fallen off the bus, for example), or it has to be
#: reset (after an error in its memory).
GPU_LOST, GPU_NEEDS_RESET = "lost", "needs_reset"
GPU_FAULTS = (GPU_LOST, GPU_NEEDS_RESET)

#: Which memory ran out, and who said so: the trial's output, the kernel, which had killed a process, or the keeper,
#: which had ended the trial because it had more than it may.
GPU_MEMORY, MAIN_MEMORY = "gpu", "main"
BY_TEXT, BY_KERNEL, BY_LIMIT = "text", "kernel", "limit"

#: Signals that may ask a trial to save a checkpoint and end; the names have no "SIG".
FREEZE_SIGNALS = ("TERM", "INT", "HUP", "USR1", "USR2")

ORDER_STOP, ORDER_PARAMETERS, ORDER_FREEZE = "stop", "parameters", "freeze"
#: In ORDERS_FILE alone: what SIGTERM tells a keeper, and another signal its trial, where no signal reaches it.
ORDER_END, ORDER_SIGNAL = "end", "signal"

#: ``error`` words in answers that are not 200.
ERROR_GAP = "gap"            # 409, with "expected": the number that must come next
ERROR_CLAIMED = "claimed"    # 409, another journal owns the attempt: end, start nothing
ERROR_GONE = "gone"          # 410, the attempt is no longer wanted: stop the trial
ERROR_TOKEN = "token"        # 401
ERROR_UNREADABLE = "unreadable"  # 400
ERROR_TOO_LARGE = "too_large"    # 413
ERROR_BUSY = "busy"          # 429 or 503 with Retry-After
ERROR_CHUNKS = "chunks"      # 409, with "missing": hashes of chunks that the server does not have

# --- shapes --------------------------------------------------------------------------------


class CodeDocument(TypedDict, total=False):
    """Where the trial's code is. Exactly one of ``folder`` and ``sha256`` is given."""

    #: Absolute path: the command runs in this folder itself, nothing is copied.
    folder: str
    #: The archive's hash (hex): extracted into CODE_FOLDER after the hash was verified.
    sha256: str
    #: Path of the archive on this machine; without it the keeper fetches it from the server.
    archive: str
    #: Folder at the archive's top whose content is the trial's code; without it the whole archive is.
    part: str


class VariantDocument(TypedDict):
    """Files that the trial has instead of those of its code. They are laid over its own copy."""

    sha256: str              #: of the text that is packed
    #: Base64 of a zlib stream of JSON: ``{"base": SHA-256 of the code archive, "files": {path: {"text", "executable"},
    #: or null where the file is removed}}``. Paths are those in the archive.
    packed: str


class NextDocument(TypedDict):
    """What a place asks with: ``POST trials/HOST/next``, where HOST is the attempt that began the place's job."""

    place: str               #: id of the place's process, random
    after: str               #: job name of the attempt that runs, or ran last, here
    running: bool            #: whether it runs still: then the place only says that it is there
    wait: float              #: seconds that the answer may be waited for
    leave: Optional[str]     #: why the place is given back, one of LEAVES; None: it wants the next attempt


class LimitsDocument(TypedDict, total=False):
    max_trial_duration: Optional[float]  #: seconds by the monotonic clock, None = no limit
    grace_period: float                  #: seconds between TERM and KILL (default 5)
    report_interval: float               #: seconds between heartbeats (default 10)
    give_up_after: float                 #: seconds without an answer until the keeper ends (default 86400)
    output_head_bytes: int               #: sent from the start of each stream (default 256 KiB)
    output_tail_bytes: int               #: sent from the end of each stream (default 256 KiB)
    #: CPUs and bytes of main memory that the trial may have; None: no limit of its own.
    cpu_number: Optional[float]
    memory_bytes: Optional[int]
    #: Seconds the keeper waits for the first answer to `started` before it starts the command
    #: all the same (default 2); None = until a server has answered.
    claim_timeout: Optional[float]
    #: Seconds the report of `started` may wait for what follows it, so that a short trial is told in one report
    #: (default 0). For where nobody waits for the claim and the start is seen otherwise.
    hold_started: float


class KnownCheckpoint(TypedDict):
    """A checkpoint that the server has, as a job is told of it."""

    id: str                  #: SHA-256 (hex) of its manifest
    name: str                #: its name in the folder of checkpoints
    step: Optional[int]
    size: int                #: bytes of its files


class FoldersDocument(TypedDict):
    """A trial that loads what another one has saved, and saves for others, in folders that its parameters name.

    The keeper gives these parameters, where the trial has them, the paths of its own folders.
    """

    load_parameter: str
    save_parameter: str
    #: What is put into the folder to be loaded before the command starts, the first that can be; [] for none.
    load: List[KnownCheckpoint]


class CheckpointsDocument(TypedDict, total=False):
    """How checkpoints of this attempt are dealt with."""

    max_bytes: int           #: a larger checkpoint is not sent
    #: Bytes that are sent in a second, on the average; None: as fast as it goes.
    bytes_per_second: Optional[int]
    #: Put back in place before the command starts, the first that can be: the newest first.
    resume: List[KnownCheckpoint]
    #: Seconds that a trial has to save a checkpoint and end after `signal` was sent to it, before it is killed: on
    #: ORDER_FREEZE, and when the keeper itself is told to end.
    grace: float
    signal: str              #: one of FREEZE_SIGNALS, for ORDER_FREEZE alone; without it TERM
    #: Whether the platform may run this job again as it is, later than ``resume`` was written: a keeper that reaches a
    #: server asks it for the list (in its job) before it puts one back. Not there: no.
    asks_anew: bool
    folders: FoldersDocument  #: not there: its parameters name none


class ManifestFile(TypedDict):
    path: str                #: relative, with slashes; "" where the checkpoint is a single file
    size: int
    mode: int                #: permission bits
    chunks: List[str]        #: SHA-256 (hex) of its content, CHUNK_BYTES each but the last; [] for an empty file


class Manifest(TypedDict):
    """What a checkpoint consists of. Its bytes (JSON, keys sorted, no blanks, ASCII) give the checkpoint's id."""

    version: int             #: 1
    name: str
    files: List[ManifestFile]  #: by path
    folders: List[str]       #: relative paths of folders, by path; [] where the checkpoint is a single file


class NodePlace(TypedDict):
    """Where a rank of a trial is, in the words of the platform that placed it."""

    machine: str
    gpu_indices: Optional[List[int]]


class NodeDocument(TypedDict, total=False):
    """One node of a trial with several. Each has one process with one rank; rank 0 is the one that reports."""

    rank: int
    count: int
    #: Processes that torchrun starts on a node unless it is told otherwise.
    processes: int
    #: Address of the machine of rank 0, as the other machines reach it. Not there: the keeper's environment has
    #: MASTER_ADDR and MASTER_PORT.
    address: str
    #: Where rank 0 listens for the others. Its keeper chooses a free one when it starts the command, and the others are
    #: started after that.
    port: int
    #: Of all ranks, in their order, so that whoever finds one of them knows where the others are.
    places: List[NodePlace]


class ParameterDocument(TypedDict):
    index: int
    #: The text of the parameter file: ``{"parameter_id", "parameter_source", "parameters", "parameter_index"}``.
    text: str


#: Why a trial was started plainly where a warm start was asked for: the machine has no agent; the command is no single
#: call of a Python script or module; the named variable changes what the shell does; the interpreter is none that can
#: be forked; the named module cannot be imported; it reads a variable of which each trial has its own value; after the
#: imports CUDA was initialised, files were open, threads were running; the parent takes too much memory, imports for
#: too long, ended before it was ready; the trial's folder has a module of the same name as a loaded one; no process
#: could be started; there are too many parents. (That the parent had just ended is not told.)
PLAIN_START_CAUSES = ("no_agent", "command", "variable", "interpreter", "import", "reads", "cuda", "files", "threads",
                      "memory", "slow", "failed", "shadowed", "no_process", "parents")


#: When the value of a metric that the keeper reads is a trial's final result: the last one of a trial that ended with
#: exit code 0; the best one of it; the last one of it, with no intermediate results before.
LAST, BEST, AT_EXIT = "last", "best", "at exit"
FINALS = (LAST, BEST, AT_EXIT)


#: What kept a keeper from finding metrics: a pattern took too long on some lines, or is none in the keeper's Python;
#: an event file is damaged; there are too many files; a source had so much that it was not read to its end;
#: the result was not found although the trial ended well.
METRIC_PROBLEMS = ("slow_pattern", "unknown_pattern", "damaged_file", "too_many_files", "not_read_in_time", "no_result")


class MetricProblem(TypedDict):
    problem: str             #: one of METRIC_PROBLEMS
    detail: str              #: where: a stream, a file, patterns; of no_result the names that were found, or ""


class MetricsDocument(TypedDict, total=False):
    """Where the keeper reads the metrics of a script that does not import ``nni``. What is not there is not read."""

    #: A regular expression for lines of the stream, or "json": see line_metrics.
    stdout: str
    stderr: str
    #: Patterns of files in the trial's output folder with a row for each step: CSV, TSV, or JSON lines.
    files: List[str]
    #: Tags of scalars in TensorBoard's event files in that folder, alone or behind the folder of their file.
    tensorboard: List[str]
    #: Whether the trial gets a tracking server for MLflow.
    mlflow: bool
    result: str              #: the metric that is the trial's result, by its name there
    main: str                #: the name under which results are reported
    final: str               #: one of FINALS
    greater_is_better: bool


class WarmStartDocument(TypedDict, total=False):
    """How a trial was started where a warm start was asked for."""

    warm: bool               #: forked by a parent that has imported modules, or started plainly
    cause: str               #: why plainly: one of PLAIN_START_CAUSES
    detail: str              #: of the cause: a short text, or ""
    memory: int              #: bytes of the parent
    modules: int             #: that it has imported
    learns: bool             #: it has imported none yet, and learns from this trial which


class _OfALimit(TypedDict, total=False):
    limit: int               #: bytes of main memory that the trial might have, where that limit was reached
    taken: int               #: bytes that it had then, where its keeper has looked


class OutOfMemoryDocument(_OfALimit):
    """What a failed trial ran out of."""

    memory: str              #: GPU_MEMORY or MAIN_MEMORY
    by: str                  #: BY_TEXT, BY_KERNEL or BY_LIMIT
    line: str                #: of the trial's output that says so, "" without one
    gpu_total: Optional[int]  #: bytes of memory of the smallest of its GPUs; None where that is not known


#: Programs that run containers, and any of them: podman where there is one, else docker.
PODMAN, DOCKER, ANY_ENGINE = "podman", "docker", "auto"
ENGINES = (ANY_ENGINE, PODMAN, DOCKER)
#: When an image is pulled: where the machine does not have it, never, or before the first trial of an experiment there.
PULL_MISSING, PULL_NEVER, PULL_ALWAYS = "missing", "never", "always"
PULLS = (PULL_MISSING, PULL_NEVER, PULL_ALWAYS)
#: The network of a container: one of its own, as its engine makes it; that of the machine; none.
PRIVATE, HOST_NETWORK, NO_NETWORK = "private", "host", "none"
NETWORKS = (PRIVATE, HOST_NETWORK, NO_NETWORK)
#: Why an image cannot be used on a machine: it has no engine; the engine does not work there; it lacks the image, which
#: is not to be pulled; the pull failed.
NO_ENGINE, ENGINE_UNUSABLE, IMAGE_MISSING, PULL_FAILED = "no_engine", "engine_unusable", "image_missing", "pull_failed"
IMAGE_PROBLEMS = (NO_ENGINE, ENGINE_UNUSABLE, IMAGE_MISSING, PULL_FAILED)


class ImageDocument(TypedDict):
    """What an agent says of an image on its machine."""

    engine: str              #: PODMAN or DOCKER; what was asked for where there is none
    program: str             #: its path; "" with a problem
    rootless: bool           #: root inside is the user outside
    problem: str             #: one of IMAGE_PROBLEMS, "" where the image can be used
    detail: str              #: what the engine said of the problem, or ""


class ContainerDocument(TypedDict):
    """The image in which a trial's command runs, and by what."""

    image: str
    engine: str              #: PODMAN or DOCKER
    program: str             #: its path on the machine
    rootless: bool
    network: str             #: one of NETWORKS


class JobDocument(TypedDict, total=False):
    """Answer of ``GET trials/<job name>/job`` and content of JOB_FILE: what to run."""

    version: int
    job_name: str            #: id under which the keeper reports
    trial_job_id: str        #: the trial's id as its own code sees it (NNI_TRIAL_JOB_ID)
    experiment_id: str
    sequence_id: int
    platform: str            #: informational; the trial's NNI_PLATFORM is always "local"
    command: str             #: shell text, run by ``/bin/bash -c`` (``sh`` where there is no bash)
    parameters: List[ParameterDocument]
    #: Names of parameters (flat, see trial_parameters) of which a trial may lack some: in its command they are empty.
    parameter_names: List[str]
    multi_phase: bool
    #: Variables for the trial, complete replacement values.
    environment: Dict[str, str]
    #: Names of variables of the machine the trial may see; None = all of them.
    inherit_environment: Optional[List[str]]
    #: Directories put in front of the trial's PATH.
    path: List[str]
    #: None = leave CUDA_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES alone, [] = hide all GPUs ("-1"), else these.
    gpu_indices: Optional[List[int]]
    code: Optional[CodeDocument]
    limits: LimitsDocument
    #: Glob patterns, relative to the working directory, of files to send after the end.
    keep_files: List[str]
    #: None, or not there: the trial has no folder for checkpoints.
    checkpoints: Optional[CheckpointsDocument]
    #: Not there: the trial runs on one node.
    node: NodeDocument
    #: The trial is forked by a process that has imported its modules: these, or True: those that the first trials load.
    #: False, or not there: it is started plainly.
    warm_start: Union[bool, List[str]]
    #: None, or not there: the trial reports its metrics itself.
    metrics: Optional[MetricsDocument]
    #: None, or not there: the trial has the code as it is.
    variant: Optional[VariantDocument]
    #: None, or not there: the command is run on the machine itself.
    container: Optional[ContainerDocument]


class KeeperDocument(TypedDict, total=False):
    version: int
    host: str
    pid: int
    journal_id: str
    replica: int
    #: Highest parameter index the keeper holds (multi-phase).
    parameter_index: int


class Order(TypedDict, total=False):
    order: str               #: ORDER_STOP, ORDER_PARAMETERS, ORDER_FREEZE, ORDER_END or ORDER_SIGNAL
    reason: str              #: of a stop, a freeze or an end, for the log
    index: int               #: of parameters
    text: str                #: of parameters: the parameter file's text
    number: int              #: of a signal


class Rejected(TypedDict):
    n: int
    field: str
    message: str


class ReportReply(TypedDict, total=False):
    installation: str        #: id of the answering installation
    accepted: int            #: highest entry number that is durable
    rejected: List[Rejected]
    orders: List[Order]
    next_report_within: float  #: seconds
    gather_for: float        #: seconds from this answer for which metrics and output may wait for others; else 0


#: An entry: ``{"n": int >= 1, "at": unix seconds, "type": one of ENTRY_TYPES, ...}`` and
#:
#: started  pid, host, machine_id, gpu_indices, working_directory
#: metric   kind, parameter_id (any JSON scalar), sequence (int), value (text as the trial
#:          gave it: the JSON text of the reported value, in which NaN and Infinity may occur;
#:          null, with the reason in `omitted`, where it was longer than MAX_METRIC_BYTES: servers
#:          acknowledge such an entry and list it as rejected). The value of a REQUEST_PARAMETER
#:          is the decimal index of the parameters the trial waits for
#: output   stream ("stdout" or "stderr"), offset (int, bytes), data (text: the bytes decoded as
#:          Latin-1, so that len(data) == number of bytes), skipped (optional int: so many bytes
#:          before offset were left out here and stay on the trial machine). Lines that carry
#:          a metric are not output: the offset steps over them without `skipped`
#: checkpoint  event (one of CHECKPOINT_EVENTS), id (SHA-256 of the manifest, null where it was not made), k (the number
#:          of the checkpoint in this attempt, from 1; of one that was put back, 0), name, step (int or null), size
#:          (bytes), sequence (saved: how many intermediate results of this attempt came before it), problem (failed:
#:          one of CHECKPOINT_PROBLEMS), detail (failed: a short text such as a path). One that was saved counts when
#:          this entry is committed; its chunks and its manifest were sent before
#: ended    exit_code (int or None), signal (int or None), reason, message (a sentence, may be
#:          ""), duration (seconds by the monotonic clock, 0 if never started; of a trial whose keeper
#:          was killed from its start to its last sign, by the machine's clock), warm_start (WarmStartDocument;
#:          not there where none was asked for, or there is nothing to tell), metric_problems (a list of
#:          MetricProblem; not there where there were none), out_of_memory (OutOfMemoryDocument; not there where the
#:          trial did not run out of it), gpu_peak (the most bytes that it was seen to have on one GPU; not there where
#:          that is not known)
Entry = Dict[str, Any]

#: A report: ``{"keeper": KeeperDocument, "sent_at": unix seconds, "entries": [Entry],
#: "resources": {"cpu_percent", "memory_bytes", "gpus": [{"index", "utilization", "memory_bytes" (of all
#: processes), "memory_total", "own_bytes" (of the trial's processes; not there where that is not known)}]}}``;
#: ``entries`` may be empty (a heartbeat), ``resources`` may be absent.
Report = Dict[str, Any]

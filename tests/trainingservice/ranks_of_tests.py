"""A trial whose ranks meet by the standard library alone, and what tests of several platforms look at in it."""

from dataclasses import replace

from trialkeeper import contract

#: Rank 0 takes a number of each other rank at MASTER_ADDR and MASTER_PORT, reports the sum, and tells it to all. Each
#: rank says what it was told of itself.
MEETING = """
import json, os, socket, sys, time
import nni
rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
names = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "PET_NNODES", "PET_NODE_RANK",
         "PET_NPROC_PER_NODE", "CUDA_VISIBLE_DEVICES")
print(json.dumps({name: os.environ.get(name) for name in names}), flush=True)
def line(peer):
    return peer.makefile().readline().strip()
if rank == 0:
    with socket.create_server(("", address[1])) as server:
        peers = [server.accept()[0] for _ in range(count - 1)]
        total = sum(int(line(peer)) for peer in peers)
        for peer in peers:
            peer.sendall(b"%d\\n" % total)
    nni.get_next_parameter()
    nni.report_final_result(total)
else:
    while True:
        try:
            peer = socket.create_connection(address, 5)
            break
        except OSError:
            time.sleep(0.05)
    peer.sendall(b"%d\\n" % rank)
    total = int(line(peer))
print("the sum is %d" % total, flush=True)
"""

#: Each rank notes its process and its node, and works until a file of its rank tells it what to do: the exit code with
#: which it ends, or "hang". Told to end by TERM, it notes that it has saved. Arguments: the folder of those files.
RANKS_THAT_WAIT = """
import os, signal, sys, time
folder, rank = sys.argv[1], os.environ.get("RANK", "0")  # of a trial on one node there is none
def save(*_):
    open(os.path.join(folder, "saved" + rank), "w").close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
signal.signal(signal.SIGTERM, save)
with open(os.path.join(folder, "pid" + rank + ".new"), "w") as stream:
    stream.write("%d" % os.getpid())
os.rename(os.path.join(folder, "pid" + rank + ".new"), os.path.join(folder, "pid" + rank))
word = os.path.join(folder, "end" + rank)
while not os.path.exists(word):
    time.sleep(0.05)
print("rank %s was told to end" % rank, file=sys.stderr, flush=True)
sys.exit(int(open(word).read() or 0))
"""


#: Rank 0 finds that another program listens where the ranks were to meet.
TAKES_ITS_PORT_TWICE = """
import os, socket, time
if os.environ["RANK"] == "0":
    other_program = socket.create_server(("", int(os.environ["MASTER_PORT"])))
    socket.create_server(("", int(os.environ["MASTER_PORT"])))
time.sleep(60)
"""


#: Ranks that torchrun starts meet through torch.distributed, and rank 0 reports the sum of their numbers.
GLOO = """
import nni, torch, torch.distributed as dist
nni.get_next_parameter()
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank()])
dist.all_reduce(total)
if dist.get_rank() == 0:
    nni.report_final_result(int(total))
dist.destroy_process_group()
"""


def on_nodes(form, nodes, **more):
    """The same job on several nodes."""
    return replace(form, options=form.options.model_copy(update={"nodes": nodes, **more}))


def waiting_ranks(bench, nodes, **more):
    """Form of a job whose ranks wait for a word."""
    return on_nodes(bench.form(f'python3 trial.py "{bench.witness}"', script=RANKS_THAT_WAIT, **more), nodes)


def pids_of_ranks(bench, nodes):
    """Processes of all ranks, once all of them work."""
    return [int(bench.wait_for_file(bench.witness / f"pid{rank}")) for rank in range(nodes)]


def end_rank(bench, rank, exit_code=0):
    """The rank ends with this exit code."""
    written = bench.witness / f"end{rank}.new"
    written.write_text(str(exit_code))
    written.rename(bench.witness / f"end{rank}")


def final_results(bench, form):
    return [entry["value"] for entry in bench.entries(form, contract.METRIC) if entry["kind"] == contract.FINAL]

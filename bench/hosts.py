#!/usr/bin/env python3
"""Hosts in network namespaces at 1 Gbit/s: a training step of Ronde beside PyTorch's DistributedDataParallel over
gloo, or the all-reduce of both beside the limit of the link. Alternated rounds; medians. Needs root.

    python3 bench/hosts.py --ronde build/ronde --python peers/pytorch/bin/python --model resnet18
    python3 bench/hosts.py --ronde build/ronde --python peers/pytorch/bin/python --model alexnet --strategy allreduce,hybrid
    python3 bench/hosts.py --ronde build/ronde --python peers/pytorch/bin/python --bytes 4194304,16777216
    python3 bench/hosts.py --ronde build/ronde --model alexnet --bounds
    python3 bench/hosts.py --ronde build/ronde --model alexnet --bounds --strategy ps-sync

With --bounds: a step of Ronde alone, beside what its traffic takes on the link, and rank 0 on its processor for
computing and traffic.

Each host's rank has one thread. Times are rank 0's, which waits for the others in each step.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
NETWORK = "10.91.7"
SHAPES = {"lenet5": "1x28x28", "mnist-small": "1x28x28", "mnist-large": "1x28x28", "alexnet": "3x64x64"}

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--ronde", required=True)
p.add_argument("--python", help="one that has torch")
p.add_argument("--hosts", type=int, default=2)
p.add_argument("--rate", default="1gbit", help="of each link, in Gbit/s")
p.add_argument("--model")
p.add_argument("--batch", type=int, default=42, help="of each host")
p.add_argument("--momentum", type=float, default=0.9)
p.add_argument("--bytes", help="sizes of all-reduces, instead of --model")
p.add_argument("--bounds", action="store_true")
p.add_argument("--strategy", default="allreduce",
               help="one or several of Ronde's; of --bounds allreduce or ps-sync, with a server on each host")
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--steps", type=int, default=30)
a = p.parse_args()
if not a.python and not a.bounds:
    p.error("--python is needed to run PyTorch")
if a.bounds and a.strategy not in ("allreduce", "ps-sync"):
    p.error("--bounds knows what allreduce and ps-sync send")
hosts = [f"ronde{i + 1}" for i in range(a.hosts)]
shape = SHAPES.get(a.model, "3x32x32")
script = ROOT / "tests" / "hosts.sh"
environment = dict(os.environ, OMPI_MCA_plm_rsh_agent=f"{script} agent", OMPI_MCA_plm_rsh_no_tree_spawn="1")
rate = float(a.rate.removesuffix("gbit")) * 1e9 / 8  # bytes a second
port = 29500


def ronde(verb, *options):
    """What it wrote into --out."""
    with tempfile.TemporaryDirectory() as folder:
        command = [a.ronde, *verb.split(), "--hosts", ",".join(hosts), "--iface", f"{NETWORK}.0/24", "--quiet", "--out"]
        command += [folder, *options]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=300)
        return {path.name: path.read_text() for path in pathlib.Path(folder).iterdir() if path.is_file()}


def ronde_train(steps, *options):
    """The seconds of its steps, without the first three, and run.json."""
    examples = a.batch * a.hosts
    data = f"synthetic:{shape}:10:{examples * 4}"
    training = f"--model {a.model} --data {data} --batch {examples} --momentum {a.momentum} --threads 1 --eval-every 0"
    length = f"--save-best off --save-last off --epochs 100000 --steps {steps + 3}"
    files = ronde("train", *training.split(), *length.split(), *options)
    seconds = [json.loads(line)["wall_s"] for line in files["steps.jsonl"].splitlines()][3:]
    return seconds, json.loads(files["run.json"])


def ronde_steps(*options):
    return ronde_train(a.steps, *options)[0]


def ronde_allreduce(size):
    options = f"--min {size} --max {size} --iterations {a.steps} --rounds 1"
    bench = json.loads(ronde("bench collectives", *options.split())["bench.json"])
    return {row["name"]: row["time_s"]["median"] for row in bench["cases"] if row["collective"] == "all-reduce"}


def pytorch(*options):
    global port
    port += 1
    ranks = []
    for i, host in enumerate(hosts):
        command = ["ip", "netns", "exec", host, a.python, str(ROOT / "bench/peers/pytorch_ddp.py"), "--rank", str(i)]
        group = f"--world {a.hosts} --address {NETWORK}.1:{port} --interface eth0 --steps {a.steps}"
        ranks.append(subprocess.Popen([*command, *group.split(), *options], stdout=subprocess.PIPE, text=True))
    said = [rank.communicate(timeout=300)[0] for rank in ranks]
    return json.loads(said[0])["seconds"]


def show(name, rounds, other):
    """Milliseconds of the rounds' medians, and how many times longer `other` takes, by round."""
    medians = [statistics.median(seconds) for seconds in rounds[name]]
    ratios = [statistics.median(o) / m for o, m in zip(rounds[other], medians)]
    print(f"{name:14} {1e3 * statistics.median(medians):9.2f} ms   {other} takes {statistics.median(ratios):.2f} times "
          f"({', '.join(f'{r:.2f}' for r in ratios)})", flush=True)


def steps():
    strategies = {name: ["--strategy", name] for name in a.strategy.split(",")}
    if "allreduce" in strategies:
        strategies["allreduce bf16"] = ["--wire", "bf16"]
    rounds = {name: [] for name in [*strategies, "pytorch"]}
    for _ in range(a.rounds):
        for name, options in strategies.items():
            rounds[name].append(ronde_steps(*options))
        options = f"--model {a.model} --shape {shape} --batch {a.batch} --momentum {a.momentum}"
        rounds["pytorch"].append(pytorch(*options.split()))
    print(f"{a.model}, {a.hosts} hosts at {a.rate}, {a.batch} examples each")
    for name in rounds:
        show(name, rounds, "pytorch")


def bounds():
    """The bytes of a step from runs of two lengths, so that set-up and end do not count."""
    options = ["--strategy", a.strategy] + (["--servers", str(a.hosts)] if a.strategy == "ps-sync" else [])
    leaves = 1 if a.strategy == "allreduce" else (a.hosts - 1) / a.hosts  # the rest is for the server on the same host
    seconds, link, processor = [], [], []
    for _ in range(a.rounds):
        few, long = ronde_train(a.steps, *options), ronde_train(3 * a.steps, *options)
        seconds.append(statistics.median(long[0]))
        sent = long[1]["communication"]["bytes_sent"] - few[1]["communication"]["bytes_sent"]
        link.append(sent * leaves / a.hosts / (2 * a.steps) / rate)
        processor += [epoch["cpu_s"] / epoch["steps"] for epoch in long[1]["epochs"][1:]]
    step, link, processor = (1e3 * statistics.median(x) for x in (seconds, link, processor))
    print(f"{a.model}, {a.strategy}, {a.hosts} hosts at {a.rate}, {a.batch} examples each, {a.rounds} rounds")
    ratio = step / max(link, processor)
    print(f"step {step:.1f} ms, link {link:.1f} ms, processor {processor:.1f} ms: {ratio:.3f} times the larger")


def allreduces():
    for size in [int(size) for size in a.bytes.split(",")]:
        limit = 2 * (a.hosts - 1) / a.hosts * size / rate
        times = {}
        for _ in range(a.rounds):
            for name, seconds in ronde_allreduce(size).items():
                times.setdefault(f"ronde {name}", []).append(seconds)
            times.setdefault("gloo", []).append(statistics.median(pytorch("--bytes", str(size))))
        print(f"{size} bytes, {a.hosts} hosts: times of the link's limit, {1e3 * limit:.2f} ms")
        for name, seconds in times.items():
            print(f"  {name:24} {statistics.median(seconds) / limit:.3f}", flush=True)


subprocess.run([script, "down"], check=True)
subprocess.run([script, "up", str(a.hosts), a.rate], check=True)
try:
    bounds() if a.bounds else allreduces() if a.bytes else steps()
finally:
    subprocess.run([script, "down"], check=True)

#!/usr/bin/env python3
"""A training by several workers of another system, beside `ronde compare --peers`: starts its processes, and leaves what they
measured as Ronde leaves its own (run.json, steps.jsonl), so that the same audit and the same ranking apply.

    cluster.py --system NAME --ronde RONDE --out FOLDER -- OPTIONS of ronde train

With --hosts the processes are started on those by ssh (cluster_hosts.py). NAME: pytorch-ddp, tensorflow-mirrored, tensorflow-replicas (MirroredStrategy: one process with as many devices), tensorflow-ps,
mxnet-sync, mxnet-async. The workers start from the weights of `ronde init`
and read the data as `ronde data convert` writes them, in their order, as --shuffle off has it. Options that a peer cannot follow
are refused (exit 2). The phases: loading by the worker's own clock, forward, backward and update by the system's own profiler,
over the steps behind the measured ones; exchange and waiting are the rest of a step.
Requirements: numpy, and the system.
"""

import argparse
import datetime
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

from cluster_hosts import Hosts, hosts_of_ranks
from files import prepare, ronde

SCRIPTS = pathlib.Path(__file__).resolve().parent
SYSTEMS = {
    "pytorch-ddp": ("pytorch_cluster.py", "allreduce"),
    "tensorflow-mirrored": ("tensorflow_cluster.py", "allreduce"),
    "tensorflow-replicas": ("tensorflow_cluster.py", "allreduce"),
    "tensorflow-ps": ("tensorflow_cluster.py", "ps-async"),
    "mxnet-sync": ("mxnet_cluster.py", "ps-sync"),
    "mxnet-async": ("mxnet_cluster.py", "ps-async"),
}
STUCK_S = 120
PHASES = ["load_s", "forward_s", "backward_s", "exchange_s", "wait_s", "update_s", "other_s"]
# What a peer does not follow, as Ronde has it by default.
DEFAULTS = {"normalize": "off", "shard": "static", "repeat": 1, "val-split": 0.0, "train-examples": 0, "augment": "off", "nesterov": False,
            "weight-decay": 0.0, "clip": 0.0, "accumulate": 1, "lr-schedule": "constant", "warmup": 0, "label-smoothing": 0.0,
            "dropout": 0.0, "init": None, "freeze": None, "dtype": "f32", "wire": "f32", "sync-bn": False,
            "lr-scale-workers": False, "skip-bad-images": False, "target": None, "layout": "auto"}


def refuse(text):
    print(f"ronde: error: {arguments.system}: {text}", file=sys.stderr, flush=True)
    sys.exit(2)


def check(config):
    for name, value in DEFAULTS.items():
        if config.get(name, value) != value:
            refuse(f"--{name} {config[name]} is not followed there: it would not be the same work")
    if config["shuffle"]:
        refuse("its workers read the examples in their order: --shuffle off")
    if config["optimizer"] not in ("sgd", "adam"):
        refuse(f"--optimizer {config['optimizer']}: it is measured with sgd or adam")
    if not config["cache"]:
        refuse("its data are decoded before it starts: --cache on")
    if config["hosts"] and arguments.system == "tensorflow-replicas":
        refuse("it is one process, on one host: leave out --hosts")


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def placed(workers):
    """The host of each process, in the order of processes(). workers: those of the ranks; what is no worker is with the first."""
    first = workers[0]
    if arguments.system == "tensorflow-replicas":
        return [first]
    if arguments.system == "tensorflow-ps":
        return [first, *workers, first]
    return [*workers, first, first] if arguments.system.startswith("mxnet") else list(workers)


def processes(spec, at):
    """(role, environment) of each process; those that report come first, rank by rank. at: (address, port, interface) of each."""
    workers, system = spec["workers"], arguments.system
    if system == "pytorch-ddp":
        return [({"address": "%s:%d" % at[0][:2], "rank": rank}, {"GLOO_SOCKET_IFNAME": at[rank][2]}) for rank in range(workers)]
    if system == "tensorflow-replicas":
        return [({}, {})]
    if system.startswith("mxnet"):
        roles = ["worker"] * workers + ["server", "scheduler"]
        root = {"DMLC_PS_ROOT_URI": at[-1][0], "DMLC_PS_ROOT_PORT": str(at[-1][1]), "DMLC_NUM_SERVER": "1",
                "DMLC_NUM_WORKER": str(workers)}
        return [({"role": role}, dict(root, DMLC_ROLE=role, DMLC_NODE_HOST=address, DMLC_INTERFACE=iface))
                for role, (address, _, iface) in zip(roles, at)]
    names = [("worker", workers)] if system == "tensorflow-mirrored" else [("chief", 1), ("worker", workers), ("ps", 1)]
    places = iter(at)
    cluster = {kind: ["%s:%d" % next(places)[:2] for _ in range(n)] for kind, n in names}
    tasks = [{"type": kind, "index": i} for kind, n in names for i in range(n)]
    return [({"task": task}, {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}) for task in tasks]


def n_reports(spec):
    return 1 if arguments.system in ("tensorflow-ps", "tensorflow-replicas") else spec["workers"]


def fail(text):
    print(f"ronde: error: {arguments.system}: {text}", file=sys.stderr, flush=True)
    sys.exit(1)


def run(spec, folder):
    """What the processes that report have said, by rank."""
    script, _ = SYSTEMS[arguments.system]
    started = []
    at = [("127.0.0.1", port, "lo") for port in free_ports(len(placed(range(spec["workers"]))))]
    for i, (role, environment) in enumerate(processes(spec, at)):
        path = folder / f"process-{i}.json"
        path.write_text(json.dumps(dict(spec, **role)))
        environment = dict(os.environ, OMP_NUM_THREADS=str(spec["threads"]), **environment)
        started.append(subprocess.Popen([sys.executable, "-W", "ignore", str(SCRIPTS / script), str(path)], env=environment,
                                        stdout=subprocess.PIPE, stderr=open(folder / f"process-{i}.log", "w"), text=True))
    said = []
    threading.Thread(target=watch, args=(started,), daemon=True).start()
    for i, process in enumerate(started[:n_reports(spec)]):
        line = process.stdout.readline()
        if not line:
            end = (folder / f"process-{i}.log").read_text().strip().splitlines() or ["it said nothing"]
            stop(started)
            fail(f"a worker ended without a result: {end[-1][:400]}")
        said.append(json.loads(line))
    stop(started)  # servers would not end by themselves
    return sorted(said, key=lambda one: one["rank"])


def cpu_ticks(process):
    try:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, IndexError):
        return 0


def watch(started):
    """Ends all where none of them has computed for STUCK_S: a worker that waits for one that is gone never ends by itself."""
    before, since = None, time.monotonic()
    while True:
        time.sleep(1)
        now = [cpu_ticks(process) for process in started]
        if now != before:
            before, since = now, time.monotonic()
        elif time.monotonic() - since > STUCK_S:
            for process in started:
                process.kill()


def stop(started):
    for process in started:
        process.terminate()
    for process in started:
        process.wait()


def write(plan, spec, said, folder, begin):
    config, workers, first = dict(plan["config"]), spec["workers"], said[0]
    steps, examples = len(first["seconds"]), spec["batch"] * len(first["seconds"])
    losses = [sum(one["losses"][i] for one in said) / len(said) for i in range(steps)]
    wall = sum(sum(one["seconds"]) for one in said) / len(said)
    rows, mean = [], {name: sum(one["phases"][name] for one in said) / len(said) for name in PHASES}
    for one in said:
        rows.append(dict(one["phases"], rank=one["rank"], host=one["host"], role="worker",
                         examples=examples // len(said), wall_s=sum(one["seconds"]), peak_rss_bytes=one["peak_rss_bytes"]))
    epoch = {name: mean[name] for name in PHASES if name not in ("exchange_s", "wait_s")}
    epoch.update(epoch=1, steps=steps, examples=examples, wall_s=wall, communication_s=mean["exchange_s"] + mean["wait_s"],
                 cpu_s=sum(one["cpu_s"] for one in said), examples_per_s=examples / wall, train_loss=sum(losses) / steps)
    record = {
        "schema": "ronde.run.v1", "status": "completed", "command": sys.orig_argv,
        "version": {"peer": arguments.system, "version": first["version"]},
        "started_at": datetime.datetime.fromtimestamp(begin, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": plan["machine"],
        "model": {"name": config["model"], "parameters": first["parameters"], "trained_parameters": first["parameters"],
                  "forward_flops_per_example": first["forward_flops_per_example"],
                  "train_flops_per_example": plan["train_flops_per_example"], "padding": plan["padding"],
                  **({"batch_norm": first["batch_norm"]} if first.get("batch_norm") else {})},
        "data": {"name": plan["data"], "sha256": plan["data_sha256"], "train_examples": spec["examples"], "shape": spec["shape"],
                 "classes": spec["classes"]},
        "config": config,
        "world": {"workers": workers, "servers": 0 if SYSTEMS[arguments.system][1] == "allreduce" else 1,
                  "threads_per_worker": first["threads"], "transport": first["transport"],
                  "strategy": SYSTEMS[arguments.system][1], "simulated": False, "system": arguments.system},
        "setup_s": first["setup_s"], "epochs": [epoch], "workers": rows,
        "ops": [row for one in said for row in one["ops"]],
        "communication": {"staleness": {} if SYSTEMS[arguments.system][1] == "ps-async" else None},
        "split_by": first["split_by"],
        "totals": {"wall_s": time.time() - begin, "cpu_s": sum(one["cpu_s"] for one in said), "steps": steps,
                   "examples": examples, "peak_rss_bytes": sum(one["peak_rss_bytes"] for one in said), "energy_j": None},
        "result": {"train_loss": sum(losses) / steps},
    }
    lines = [json.dumps({"step": i + 1, "epoch": 1, "loss": losses[i], "lr": config["lr"], "examples": spec["batch"],
                         "wall_s": first["seconds"][i]}) for i in range(steps)]
    (folder / "steps.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "run.json").write_text(json.dumps(record, indent=1))
    print(json.dumps(record), flush=True)


def spec_of(plan, shape):
    config = plan["config"]
    return {"system": arguments.system, "model": config["model"], "padding": plan["padding"] or "same", "shape": list(shape),
            "classes": config["classes"], "workers": plan["workers"], "batch": plan["batch"], "steps": plan["steps"],
            "optimizer": config["optimizer"], "lr": config["lr"], "momentum": config["momentum"], "betas": config["betas"],
            "eps": config["eps"], "threads": plan["threads_per_worker"], "examples": plan["data_examples"]}


def train_here(plan, folder):
    """(spec, what the workers said)"""
    images, weights, shape = prepare(arguments.ronde, plan, folder)
    spec = dict(spec_of(plan, shape), weights=str(weights), data=str(images))
    said = run(spec, folder)
    plan["machine"] = {"hosts": [socket.gethostname()], "cores": len(os.sched_getaffinity(0))}
    return spec, [dict(one, host=socket.gethostname()) for one in said]


def train_on_hosts(plan):
    of = placed(hosts_of_ranks(plan["config"]["hosts"], plan["workers"]))
    hosts = Hosts(of, STUCK_S, fail)
    at = hosts.prepare(arguments.ronde, plan, of)
    first = hosts.about[of[0]]
    spec = spec_of(plan, first["shape"])
    script, environments = SYSTEMS[arguments.system][0], {"OMP_NUM_THREADS": str(spec["threads"])}
    started = [{"index": i, "script": script, "spec": dict(spec, **role), "environment": dict(environments, **environment),
                "reports": i < n_reports(spec)} for i, (role, environment) in enumerate(processes(spec, at))]
    plan["machine"] = {"hosts": [first["host"]], "cores": first["cores"]}
    return spec, sorted(hosts.run(started, of, n_reports(spec)), key=lambda one: one["rank"])


def main():
    begin = time.time()
    folder = pathlib.Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    plan = json.loads(ronde(arguments.ronde, *arguments.words, "--dry-run", "--json", "--quiet"))
    config = plan["config"]
    check(config)
    workers, batch = plan["workers"], plan["batch"]
    if batch % workers:
        refuse(f"a batch of {batch} is not the same for each of {workers} workers")
    if plan["steps"] * batch > plan["data_examples"] // batch * batch and not config["drop-last"] and plan["data_examples"] % batch:
        refuse(f"it makes whole batches: at most {plan['data_examples'] // batch} --steps, or --drop-last")
    spec, said = train_on_hosts(plan) if config["hosts"] else train_here(plan, folder)
    write(plan, spec, said, folder, begin)


parser = argparse.ArgumentParser()
parser.add_argument("--system", required=True, choices=SYSTEMS)
parser.add_argument("--ronde", required=True)
parser.add_argument("--out", required=True)
parser.add_argument("words", nargs="+", help="train OPTIONS")
arguments = parser.parse_args()
main()

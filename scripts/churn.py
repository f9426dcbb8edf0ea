#!/usr/bin/env python3
"""Disturbs a training on hosts (network namespaces, as root) until it has ended by itself: at random moments a rank is killed or
stopped, a cable is out for a while, or a host is added to the file of hosts; hosts that were lost come back. By hand; all it
starts is its own, and it ends what it started.

    scripts/churn.py --build build --minutes 60 --seed 1
    scripts/churn.py --build build --epochs 30 --gap 0.5,3 --on-loss continue --strategy sharded

One line for each event, and a summary. Exit code 7 where something does not hold: the run completes with exit code 0; the replicas
are equal after every step (--sentinel 1); each step is made once, in order; the accuracy is that of undisturbed runs; memory and
descriptors of the launcher and of the ranks do not grow; no process, no shared memory and no temporary file is left."""
import argparse
import concurrent.futures
import heapq
import itertools
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from faults import HOSTS, Launch, Run, environ_of, read, record_of, spread, tell_stacks

TRAINING = ["--model", "lenet5", "--batch", "48", "--threads", "1", "--lr", "0.05", "--momentum", "0.9", "--no-save-best",
            "--eval-every", "10"]
TIMEOUT_S = 6     # a stop that lasts longer is a loss
STARTED_S = 2     # a rank's memory counts from this age on
HANG_S = 120      # without a step
SEEDS = 3         # of undisturbed runs
CABLES = "is not reached: its cable is out"


# ---- hosts --------------------------------------------------------------------------------------------------------

def name_of(number):
    return f"ronde{number + 1}"


def host_of(pid, n_hosts):
    """By its network; None: it has gone."""
    try:
        own = os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None
    return next((name_of(i) for i in range(n_hosts) if os.stat(f"/var/run/netns/{name_of(i)}").st_ino == own), None)


def make_agent(folder):
    """Stands in for ssh, which needs the cable: `ip netns exec` does not."""
    path = os.path.join(folder, "reach")
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\n[ -n "$(ip -o link show up dev "$1v")" ] || {{ sleep 3; echo "host $1 {CABLES}" >&2; exit 255; }}\n'
                   f'exec {HOSTS} agent "$@"\n')
    os.chmod(path, 0o755)
    return path


def processes_there(n_hosts):
    pids = []
    for i in range(n_hosts):
        pids += subprocess.run(["ip", "netns", "pids", name_of(i)], capture_output=True, text=True, check=True).stdout.split()
    return [int(p) for p in pids]


# ---- what processes take ------------------------------------------------------------------------------------------

def age_of(pid):
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    up = float(read("/proc/uptime").split()[0])
    return up - int(fields[19]) / os.sysconf("SC_CLK_TCK") if len(fields) > 19 else 0


def taken_by(pid):
    """Bytes of memory and descriptors, or None."""
    try:
        return int(read(f"/proc/{pid}/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, IndexError):
        return None


class Samples:
    """What the launcher and the ranks took, apart for each number of ranks, which changes both."""

    def __init__(self):
        self.of, self.pids, self.step = {}, None, 0

    def take(self, launcher, ranks, step):
        """Once these ranks have made a step: on a busy machine they start for longer than STARTED_S."""
        if set(ranks.values()) != self.pids:
            self.pids, self.step = set(ranks.values()), step
        if not ranks or step == self.step or any(age_of(p) < STARTED_S for p in ranks.values()):
            return
        for who, pid in (("launcher", launcher), *((("rank 0" if r == 0 else "rank"), p) for r, p in ranks.items())):
            taken = taken_by(pid)
            if taken:
                self.of.setdefault((who, 0 if who == "launcher" else len(ranks)), []).append(taken)

    def grown(self):
        """Of each kind the median of the first and of the last third, and whether that is flat."""
        for (who, n_ranks), all_taken in sorted(self.of.items()):
            third = len(all_taken) // 3
            if third < 5:
                continue
            first, last = ([statistics.median(column) for column in zip(*part)] for part in (all_taken[:third], all_taken[-third:]))
            flat = last[0] <= 1.1 * first[0] + (2 << 20) and last[1] <= first[1] + 3
            yield f"{who}{f' of {n_ranks}' if n_ranks else ''}", first, last, flat


# ---- events -------------------------------------------------------------------------------------------------------

class Churn:
    def __init__(self, args, run, hostfile):
        self.args, self.run, self.hostfile = args, run, hostfile
        self.lot = random.Random(args.seed)
        self.begin = time.monotonic()
        self.later, self.number = [], itertools.count()  # (when, number, what)
        self.counts = {}
        self.n_listed = args.begin_with
        self.cables_out = set()
        self.next = self.begin + self.lot.uniform(*args.gap)

    def say(self, text):
        print(f"{time.monotonic() - self.begin:8.1f} s  step {self.run.step():6d}  {text}", flush=True)

    def ranks(self):
        """Ranks of the newest start, by number."""
        found = {}
        for pid in Launch(self.run.process.pid).all():
            number = environ_of(pid).get(b"OMPI_COMM_WORLD_RANK")
            if number is not None and read(f"/proc/{pid}/comm").strip() == b"ronde":
                found[int(number)] = max(pid, found.get(int(number), 0))
        return found

    def after(self, seconds, what):
        heapq.heappush(self.later, (time.monotonic() + seconds, next(self.number), what))

    def one_of(self, ranks):
        number = sorted(ranks)[int(self.lot.random() * len(ranks))]
        return number, ranks[number], f"rank {number} on {host_of(ranks[number], self.args.hosts)}"

    def kill(self, ranks):
        if not ranks:
            return None
        _, pid, name = self.one_of(ranks)
        os.kill(pid, signal.SIGKILL)
        return f"kill {name}"

    def stop(self, ranks):
        seconds = self.lot.choice((self.lot.uniform(0.2, 2), self.lot.uniform(TIMEOUT_S + 1, TIMEOUT_S + 4)))
        if not ranks:
            return None
        _, pid, name = self.one_of(ranks)
        os.kill(pid, signal.SIGSTOP)
        self.after(seconds, lambda: self.go_on(pid, name))
        return f"stop {name} for {seconds:.1f} s"

    def go_on(self, pid, name):
        if environ_of(pid).get(b"OMPI_COMM_WORLD_RANK"):
            os.kill(pid, signal.SIGCONT)
            self.say(f"     {name} is continued")

    def cable(self, ranks):
        """Not of the host of rank 0: on its disk is --out."""
        seconds = self.lot.choice((self.lot.uniform(0.1, 0.5), self.lot.uniform(2, 12)))
        spared = {host_of(ranks[0], self.args.hosts)} if 0 in ranks else {name_of(i) for i in range(self.args.hosts)}
        hosts = [h for h in map(name_of, range(self.n_listed)) if h not in spared and h not in self.cables_out]
        if not hosts:
            return None
        host = hosts[int(self.lot.random() * len(hosts))]
        self.set_cable(host, "down")
        self.after(seconds, lambda: self.set_cable(host, "up"))
        return f"cable of {host} out for {seconds:.1f} s"

    def set_cable(self, host, state):
        subprocess.run(["ip", "link", "set", f"{host}v", state], check=True)
        (self.cables_out.add if state == "down" else self.cables_out.discard)(host)
        if state == "up":
            self.say(f"     the cable of {host} is in again")

    def join(self, _):
        if self.n_listed == self.args.hosts or not self.args.elastic:
            return None
        with open(self.hostfile, "a") as file:
            file.write(name_of(self.n_listed) + "\n")
        self.n_listed += 1
        return f"{name_of(self.n_listed - 1)} is added to the file of hosts"

    def strike(self):
        """What cannot be now is drawn anew."""
        self.next = time.monotonic() + self.lot.uniform(*self.args.gap)
        kinds = self.args.events.split(",")
        for _ in range(10):
            kind = self.lot.choice(kinds)
            try:
                said = getattr(self, kind)(self.ranks())
            except ProcessLookupError:
                continue
            if said:
                self.counts[kind] = self.counts.get(kind, 0) + 1
                self.say(said)
                return

    def do_due(self, now):
        while self.later and self.later[0][0] <= now:
            heapq.heappop(self.later)[2]()

    def watch(self, samples):
        """Until the run has ended; False: it hangs."""
        sampled, step, moved = 0, 0, time.monotonic()
        while self.run.process.poll() is None:
            now = time.monotonic()
            self.do_due(now)
            if now >= self.next and now - self.begin < self.args.quiet_after:
                self.strike()
            if now - sampled >= 1:
                sampled = now
                samples.take(self.run.process.pid, self.ranks(), self.run.step())
            if self.run.step() != step:
                step, moved = self.run.step(), now
            if now - moved > HANG_S:
                return False
            time.sleep(0.02)
        self.do_due(float("inf"))
        return True


# ---- runs ---------------------------------------------------------------------------------------------------------

def train(args, out, options, environment, before=()):
    command = [os.path.join(args.build, "ronde"), "train", *TRAINING, "--data", args.data, "--strategy", args.strategy, "--out", out]
    return Run([*before, *command, *options], environment)


def on_hosts(args, hostfile):
    return ["--hostfile", hostfile, "--iface", "10.91.7.0/24", "--log-every", "1", "--timeout", str(TIMEOUT_S)]


def undisturbed(args, folder, seed, options, environment, before=()):
    out = os.path.join(folder, f"undisturbed{seed}")
    run = train(args, out, ["--seed", str(seed), *options], environment, before)
    if run.end(args.minutes * 60 + 600):
        raise RuntimeError(f"the undisturbed run has failed: {run.lines[-1:]}")
    return record_of(out)


def accuracy_of(record):
    return record["result"]["test_accuracy"]


def choose_epochs(args, folder, hostfile, environment):
    """So many that an undisturbed run would take as long: on idle cores the events cost little."""
    record = undisturbed(args, folder, 0, ["--epochs", "3", *on_hosts(args, hostfile)], environment)
    epoch_s = statistics.median(e["wall_s"] for e in record["epochs"])
    return max(10, round(args.minutes * 60 / epoch_s / 10) * 10)


def write_hosts(path, n):
    with open(path, "w") as file:
        file.writelines(name_of(i) + "\n" for i in range(n))


# ---- the judgement ------------------------------------------------------------------------------------------------

def check_steps(out, record):
    with open(os.path.join(out, "steps.jsonl")) as file:
        steps = [json.loads(line)["step"] for line in file]
    last = record["totals"]["steps"] + (record.get("resumed_from") or {}).get("step", 0)
    twice = [b for a, b in zip(steps, steps[1:]) if b <= a]
    if twice:
        yield f"steps.jsonl: step {twice[0]} stands behind a later one"
    if not steps or steps[-1] != last:
        yield f"steps.jsonl ends with step {steps[-1:]}, the run with {last}"
    print(f"{last} steps, of which {last - len(steps)} are missing in steps.jsonl")


def check_record(record, undisturbed_accuracies):
    if record.get("status") != "completed":
        yield f"run.json: the run is {record.get('status')}"
        return
    accuracy = accuracy_of(record)
    low, high = min(undisturbed_accuracies), max(undisturbed_accuracies)
    noise = max(high - low, 0.005)
    print(f"accuracy {accuracy:.4f}, undisturbed {', '.join(f'{a:.4f}' for a in undisturbed_accuracies)}")
    if not low - noise <= accuracy <= high + noise:
        yield f"accuracy {accuracy:.4f} is not one of undisturbed runs"


def check_left(args, folder):
    deadline = time.monotonic() + 15  # what is left of a host that was cut off
    while processes_there(args.hosts) and time.monotonic() < deadline:
        time.sleep(0.2)
    for pid in processes_there(args.hosts):
        yield f"process {pid} is left: {read(f'/proc/{pid}/cmdline').replace(bytes(1), b' ').decode()}"
    for place in ("/dev/shm", os.path.join(folder, "tmp")):
        for name in os.listdir(place):
            yield f"{place}/{name} is left"
    for path, _, names in os.walk(os.path.join(folder, "run")):
        yield from (f"{path}/{name} is left" for name in names if name.startswith(".ronde-"))


def check_growth(samples):
    for who, first, last, flat in samples.grown():
        print(f"{who}: memory {first[0] / 2**20:.1f} MB at first, {last[0] / 2**20:.1f} MB at last; "
              f"descriptors {first[1]:.0f}, {last[1]:.0f}")
        if not flat:
            yield f"{who}: memory or descriptors have grown"


def tell_stops(lines):
    """How long no step was made, around each new start and each world."""
    kinds = {"a join": r" joins?: goes on", "a restart": r"ronde: restart \d+ of", "going on": r"they go on behind step"}
    stops, since, kind = {k: [] for k in kinds}, None, None
    for when, line in lines:
        if re.match(r"step \d+/", line):
            if kind:
                stops[kind].append(when - since)
            since, kind = when, None
        elif since is not None:
            kind = next((k for k, pattern in kinds.items() if re.search(pattern, line)), kind)
    for kind, times in stops.items():
        if times:
            print(f"no step around {kind}: {len(times)} times, {spread(times)} s (median, worst)")


def disturb(args, folder):
    os.makedirs(os.path.join(folder, "tmp"))
    hostfile, out = os.path.join(folder, "hosts"), os.path.join(folder, "run")
    environment = dict(os.environ, TMPDIR=os.path.join(folder, "tmp"), OMPI_MCA_plm_rsh_agent=make_agent(folder),
                       OMPI_MCA_plm_rsh_no_tree_spawn="1")
    write_hosts(hostfile, args.hosts)
    epochs = ["--epochs", str(args.epochs or choose_epochs(args, folder, hostfile, environment))]
    local = ["--workers", str(args.hosts), *epochs]
    behind = concurrent.futures.ThreadPoolExecutor(1)  # beside the disturbed run, which has the priority
    accuracies = behind.map(lambda i: accuracy_of(undisturbed(args, folder, args.seed + i, local, environment, ("nice", "-n", "19"))),
                            range(SEEDS))
    write_hosts(hostfile, args.begin_with)
    samples = Samples()
    options = [*on_hosts(args, hostfile), *epochs, "--seed", str(args.seed), "--sentinel", "1", "--checkpoint-every", "200", "--on-loss",
               args.on_loss, "--max-restarts", "1000000"]
    run = train(args, out, [*options, "--elastic"] if args.elastic else options, environment)
    churn = Churn(args, run, hostfile)
    is_through = churn.watch(samples)
    if not is_through:
        tell_stacks([run.process.pid, *Launch(run.process.pid).all()])
        run.process.send_signal(signal.SIGTERM)
    code, record = run.end(30), record_of(out)
    restarts, lost = record.get("restarts") or [], record.get("lost_workers") or []
    print(f"\n{epochs[1]} epochs in {time.monotonic() - churn.begin:.0f} s; events: "
          + ", ".join(f"{n} {kind}" for kind, n in sorted(churn.counts.items()))
          + f"; {sum(not r['joined'] for r in restarts)} restarts, {sum(bool(r['joined']) for r in restarts)} joins, "
          f"{len(lost)} lost in the last start; steps made twice: {sum(r.get('steps_lost') or 0 for r in restarts)}")
    tell_stops(run.lines)
    bad = [] if is_through else [f"no step was made for {HANG_S} s"]
    if code:
        bad.append(f"exit code {code}")
    bad += [*check_record(record, list(accuracies)), *(check_steps(out, record) if record else []), *check_growth(samples),
            *check_left(args, folder)]
    if bad:
        bad += ["the last lines of the run:", *(f"  {line}" for _, line in run.lines[-40:] if not line.startswith("step "))]
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--minutes", type=float, default=2, help="about so long it takes")
    parser.add_argument("--epochs", type=int, help="so many, instead of --minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--begin-with", type=int, default=2, help="hosts; the others join")
    parser.add_argument("--rate", default="100mbit", help="of the links")
    parser.add_argument("--data", default="synthetic:1x28x28:10:2400")
    parser.add_argument("--strategy", default="allreduce")
    parser.add_argument("--on-loss", default="restart", choices=("restart", "continue"))
    parser.add_argument("--no-elastic", dest="elastic", action="store_false", help="who is lost does not come back")
    parser.add_argument("--gap", default="0.5,20", help="seconds between two events, at least and at most")
    parser.add_argument("--quiet-after", type=float, default=float("inf"), help="seconds; then nothing happens any more")
    parser.add_argument("--events", default="kill,stop,cable,join")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    args.gap = tuple(float(g) for g in args.gap.split(","))
    if not args.elastic:
        args.begin_with = args.hosts
    if not args.inside:
        words = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--inside"]
        os.environ["CHURN"] = "mount -t tmpfs none /dev/shm && " + " ".join(f"'{w}'" for w in words)
        return subprocess.run([HOSTS, "with", str(args.hosts), args.rate, "--", 'eval "$CHURN"']).returncode
    folder = tempfile.mkdtemp(prefix="ronde-churn-")
    bad = disturb(args, folder)
    for line in bad:
        print(line if line.startswith(" ") else f"WRONG: {line}", flush=True)
    if bad:
        print(f"kept: {folder}")
    else:
        print("all holds")
        shutil.rmtree(folder)
    return 7 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Goes through faults on threads, processes and hosts (network namespaces, as root) and prints the table of docs/testing.md: noticed
after how long, named or not, the next step or the end after how long, what the run did, steps lost. By hand; all it starts is its own,
and it ends what it started.

    scripts/faults.py --build build --rounds 20 > table.md
    scripts/faults.py --build build --rounds 3 --ranks mpi,hosts --only kill

Each fault strikes a small training (lenet5, 3 workers, 20 ms a step at least, a checkpoint every 10 steps) at step 45. A run that
has ended is then resumed once a row. Exit code 7 where a run ended otherwise than the row says."""
import argparse
import glob
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOSTS = os.path.join(ROOT, "tests", "hosts.sh")
STEP = 45
TRAINING = ["--model", "lenet5", "--data", "synthetic:1x28x28:10:1200", "--batch", "50", "--epochs", "4", "--threads", "1",
            "--log-every", "1", "--no-save-best"]


# ---- processes ----------------------------------------------------------------------------------------------------

def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def environ_of(pid):
    return dict(item.split(b"=", 1) for item in read(f"/proc/{pid}/environ").split(b"\0") if b"=" in item)


def words_of(pid):
    return read(f"/proc/{pid}/cmdline").split(b"\0")


def children_of(pid):
    return [int(c) for c in read(f"/proc/{pid}/task/{pid}/children").split()]


class Launch:
    """The processes of one launch, found by its key."""

    def __init__(self, launcher):
        self.mpirun = next((c for c in children_of(launcher) if b"mpirun" in words_of(c)[0]), None)
        self.key = environ_of(self.mpirun).get(b"RONDE_LAUNCHED") if self.mpirun else None

    def all(self):
        pids = [int(p) for p in os.listdir("/proc") if p.isdigit()] if self.key else []
        return [p for p in pids if environ_of(p).get(b"RONDE_LAUNCHED") == self.key]

    def rank(self, number):
        for pid in self.all():
            if environ_of(pid).get(b"OMPI_COMM_WORLD_RANK") == b"%d" % number and b"train" in words_of(pid)[:2]:
                return pid
        raise LookupError(f"rank {number} was not found")

    def daemon_on(self, host):
        pids = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True, check=True).stdout.split()
        return next(int(p) for p in pids if words_of(p)[0].endswith(b"orted"))


def tell_stacks(pids):
    """Where processes hang: what each thread waits for, and with gdb its calls."""
    for pid in pids:
        waits = [read(path).decode() for path in glob.glob(f"/proc/{pid}/task/*/wchan")]
        print(f"hangs: {pid} {b' '.join(words_of(pid)[:3]).decode()}: {', '.join(waits)}", file=sys.stderr)
        if shutil.which("gdb"):
            subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt"], stdout=sys.stderr, stderr=subprocess.DEVNULL,
                           stdin=subprocess.DEVNULL, timeout=60, check=False)


# ---- one run ------------------------------------------------------------------------------------------------------

def command_of(build, ranks, options, out, environment=()):
    """A training on such ranks, and its environment."""
    command = [os.path.join(build, "ronde"), "train", *TRAINING, "--out", out, *options]
    env = dict(os.environ, TMPDIR=os.path.dirname(out), **dict(environment))
    if ranks == "mpi":
        command += ["--transport", "mpi", "--workers", "3"]
    elif ranks == "hosts":
        command += ["--hosts", "ronde1,ronde2,ronde3", "--iface", "10.91.7.0/24"]
        env.setdefault("OMPI_MCA_plm_rsh_agent", f"{HOSTS} agent")
    else:
        command += ["--workers", "3"]
    return command, env


class Run:
    """A training whose lines of stderr are kept with the times at which they came."""

    def __init__(self, command, env):
        self.lines, self.struck = [], None
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=env)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            now = time.monotonic()
            if "(--drill)" in line and self.struck is None:
                self.struck = now
            self.lines.append((now, line.rstrip("\n")))

    def step(self):
        """The last that was printed."""
        for i in range(len(self.lines) - 1, -1, -1):
            if m := re.match(r"step (\d+)/", self.lines[i][1]):
                return int(m.group(1))
        return 0

    def wait_for_step(self, step):
        while self.step() < step and self.process.poll() is None:
            time.sleep(0.005)

    def end(self, limit_s=100):
        try:
            code = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            tell_stacks([self.process.pid, *Launch(self.process.pid).all()])
            self.process.kill()
            code = None
        self.ended = time.monotonic()
        self.reader.join(5)
        return code if code is None or code >= 0 else 128 - code

    def next_step(self, noticed):
        """When the first step behind the fault's first word was printed; of a run that starts again, then."""
        again = next((t for t, line in self.lines if noticed and t >= noticed and "restart 1 of at most" in line), noticed)
        return next((t for t, line in self.lines if again and t > again and re.match(r"step \d+/", line)), None)

    def first_word(self):
        """The first error or warning behind the fault: when it came, and all such lines."""
        words = [(t, line) for t, line in self.lines
                 if self.struck and t >= self.struck and re.search(r"(error|warning): ", line) and "(--drill)" not in line]
        return words


# ---- faults -------------------------------------------------------------------------------------------------------

def to_rank(number, what):
    def strike(run):
        os.kill(Launch(run.process.pid).rank(number), what)
    return strike


def to_ranks(numbers, what):
    def strike(run):
        launch = Launch(run.process.pid)
        for pid in [launch.rank(n) for n in numbers]:
            os.kill(pid, what)
    return strike


def to_launcher(what, times=1):
    def strike(run):
        for i in range(times):
            if i:
                time.sleep(0.5)
            run.process.send_signal(what)
    return strike


def to_mpirun(what):
    def strike(run):
        os.kill(Launch(run.process.pid).mpirun, what)
    return strike


def to_all(what):
    def strike(run):
        for pid in [run.process.pid, *Launch(run.process.pid).all()]:
            os.kill(pid, what)
    return strike


def power(run):
    for pid in subprocess.run(["ip", "netns", "pids", "ronde3"], capture_output=True, text=True, check=True).stdout.split():
        os.kill(int(pid), signal.SIGKILL)


def daemon(run):
    os.kill(Launch(run.process.pid).daemon_on("ronde3"), signal.SIGKILL)


def set_cable(state):
    subprocess.run(["ip", "link", "set", "ronde3v", state], check=True)


def await_network():
    """Until the third host reaches the launching side again: after a cable was out it asks for the address once a second."""
    ask = "import socket; socket.create_connection(('10.91.7.254', 9), 5)"
    for _ in range(100):
        if "ConnectionRefused" in subprocess.run(["ip", "netns", "exec", "ronde3", sys.executable, "-c", ask], capture_output=True,
                                                 text=True, check=False).stderr:
            return
        time.sleep(0.1)
    raise RuntimeError("the third host does not reach the launching side")


def cable(run):
    set_cable("down")


def cable_for(seconds):
    def strike(run):
        set_cable("down")
        time.sleep(seconds)
        set_cable("up")
    return strike


def noise(run):
    """Datagrams that no rank has sent, to every port of a host on which ranks listen."""
    ports = subprocess.run("ip netns exec ronde3 ss -Hlun | awk '{ sub(/.*:/, \"\", $4); print $4 }'", shell=True, text=True,
                           capture_output=True, check=True).stdout.split()
    for port in ports:
        for data in (b"noise", b"RNDL\1" + bytes(51), b"RNDL\2" + bytes(51)):
            subprocess.run(["bash", "-c", f"cat >/dev/udp/10.91.7.3/{port}"], input=data, check=True)



def fault(name, strike=None, drill=None, options=(), ranks="mpi hosts", strategies=("allreduce",), exit=(4,), named=None, start=None,
          front=(), resume=True, threads_exit=None):
    return dict(name=name, strike=strike, drill=drill, options=list(options), ranks=ranks.split(), strategies=strategies,
                exit=set(exit), named=named, start=start, front=front, resume=resume, threads_exit=threads_exit)


RESTART = ("--on-loss", "restart")
LONG = ("--epochs", "10")  # mpirun may end what goes on some seconds later
ALL = "threads mpi hosts"
SYNC = ("allreduce", "sharded", "ps-sync", "localsgd")
ASYNC = ("ps-async", "ps-ssp", "downpour")
FAULTS = [
    fault("kill a worker", drill=f"kill:1@{STEP}", ranks=ALL, strategies=SYNC, named="rank 1", threads_exit=137),
    fault("kill a worker, `--on-loss restart`", drill=f"kill:1@{STEP}", options=RESTART, strategies=SYNC, exit=(0,), named="rank 1"),
    fault("kill a worker of an asynchronous run", drill=f"kill:1@{STEP}", strategies=ASYNC, exit=(0,), named="rank 1"),
    fault("kill rank 0", drill=f"kill:0@{STEP}", named="rank 0"),
    fault("kill rank 0, `--on-loss restart`", drill=f"kill:0@{STEP}", options=RESTART, exit=(0,), named="rank 0"),
    fault("kill two of three at once", to_ranks((1, 2), signal.SIGKILL), named="rank [12]"),
    fault("SIGSEGV of a worker", to_rank(1, signal.SIGSEGV), named="rank 1"),
    fault("SIGABRT of a worker", to_rank(2, signal.SIGABRT), named="rank 2"),
    fault("stop a worker for 0.5 s", drill=f"stop:1@{STEP}:0.5", ranks=ALL, exit=(0,)),
    fault("stop a worker, `--timeout 2`", drill=f"stop:1@{STEP}", options=("--timeout", "2"), strategies=("allreduce", "ps-sync"),
          named="rank 1"),
    fault("NaN in a gradient", drill=f"corrupt:2@{STEP}", ranks=ALL, exit=(5,), named="rank 2"),
    fault("NaN in a gradient, `--skip-bad-steps 1`", drill=f"corrupt:2@{STEP}", options=("--skip-bad-steps", "1"), ranks=ALL,
          exit=(0,)),
    fault("a flipped bit in a replica, `--sentinel 10`", lambda run: None, drill=f"drift:2:{STEP}", options=("--sentinel", "10"), ranks=ALL, exit=(7,),
          named="rank 2", resume=False),
    fault("out of memory", drill=f"oom:2@{STEP}", ranks=ALL, exit=(6,), named="rank 2.*bytes"),
    fault("full disk", drill=f"disk-full@{STEP}", ranks=ALL, exit=(6,), named="No space left"),
    fault("slow disk", drill="slow-disk:20", ranks=ALL, exit=(0,)),
    fault("a slow worker", drill="slow:1:60", ranks=ALL, exit=(0,)),
    fault("slow data", drill="load:1:60", ranks=ALL, exit=(0,)),
    fault("SIGTERM to the launcher", to_launcher(signal.SIGTERM), ranks=ALL, exit=(143,), named="interrupted after step"),
    fault("SIGINT to the launcher", to_launcher(signal.SIGINT), ranks=ALL, exit=(130,), named="interrupted after step"),
    fault("SIGINT twice", to_launcher(signal.SIGINT, 2), ranks="mpi hosts", exit=(130,), named="interrupted"),
    fault("SIGTERM to all processes", to_all(signal.SIGTERM), exit=(143,), named="interrupted after step"),
    fault("SIGTERM to mpirun alone", to_mpirun(signal.SIGTERM), exit=(143,), named="interrupted after step"),
    fault("SIGKILL of the launcher", to_launcher(signal.SIGKILL), exit=(137,)),
    fault("SIGKILL of mpirun", to_mpirun(signal.SIGKILL), named="mpirun was lost"),
    fault("mpirun stopped, `--timeout 2`", to_mpirun(signal.SIGSTOP), options=("--timeout", "2"), named="mpirun was lost"),
    fault("power off", power, ranks="hosts", strategies=("allreduce", "sharded"), named="ronde3"),
    fault("power off, `--on-loss restart`", power, options=RESTART, ranks="hosts", exit=(0,), named="ronde3"),
    fault("power off, the others go on", power, options=("--on-loss", "continue", *LONG), ranks="hosts", strategies=("allreduce", "sharded"),
          exit=(0,), named="ronde3"),
    fault("power off, asynchronous", power, options=LONG, ranks="hosts", strategies=("ps-async",), exit=(0,), named="ronde3"),
    fault("Open MPI's daemon killed", daemon, ranks="hosts", named="ronde3"),
    fault("cable out", cable, ranks="hosts", strategies=("allreduce", "sharded"), named="ronde3"),
    fault("cable out, `--on-loss restart`", cable, options=RESTART, ranks="hosts", exit=(0,), named="ronde3"),
    fault("cable out, the others go on", cable, options=("--on-loss", "continue", *LONG), ranks="hosts", strategies=("allreduce", "sharded"),
          exit=(0,), named="ronde3"),
    fault("cable out, asynchronous", cable, ranks="hosts", strategies=("ps-async",), exit=(0,), named="ronde3"),
    fault("cable out for 0.3 s", cable_for(0.3), ranks="hosts", exit=(0,)),
    fault("forged, foreign and cut datagrams", noise, ranks="hosts", exit=(0,), named="was refused"),
    fault("a host refuses ssh", start="echo 'ssh: connect to host: Connection refused' >&2; exit 255", ranks="hosts",
          named="host ronde3.*Connection refused", resume=False),
    fault("Open MPI is missing on a host", start="echo 'sh: 1: orted: not found' >&2; exit 127", ranks="hosts",
          named="host ronde3.*orted: not found", resume=False),
    fault("ronde is missing on a host", start="HIDE", ranks="hosts", named="host ronde3 was reached, but ronde cannot be run", resume=False),
    fault("ssh never answers, `--timeout 1`", start="exec sleep 60", options=("--timeout", "1"), ranks="hosts",
          named="rank 2 on host ronde3", resume=False),
    fault("cable out at the start, `--timeout 4`", options=("--timeout", "4"), ranks="hosts", named="ronde3", resume=False,
          start="ip link show ronde3v | grep -q LOWER_UP || exit 255\n"
                f'(sleep 0.3; ip link set ronde3v down) &\nexec {HOSTS} agent "$@"'),
    fault("`ulimit -f` too small", options=(), ranks="mpi", front=("sh", "-c", 'ulimit -f 1000; exec "$0" "$@"'), exit=(6,),
          named="ulimit -f", resume=False),
]


def make_agent(folder, script, build):
    """Stands in for ssh, and lets one host fail."""
    path = os.path.join(folder, "reach")
    one = f'mount -t tmpfs none {build}; exec {HOSTS} agent "$@"' if script == "HIDE" else script
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\n[ "$1" = ronde3 ] || exec {HOSTS} agent "$@"\n')
        file.write(f"exec unshare --mount sh -c '{one}' sh \"$@\"\n" if script == "HIDE" else one + "\n")
    os.chmod(path, 0o755)
    return path


def one_round(case, build, ranks, strategy, folder, number):
    out = os.path.join(folder, f"run{number}")
    options = ["--strategy", strategy, "--checkpoint-every", "10", *case["options"]]
    drills = [d for d in ("slow:0:20" if not (case["drill"] or "").startswith("slow:") else None, case["drill"]) if d]
    environment = {}
    if case["start"]:
        environment["OMPI_MCA_plm_rsh_agent"] = make_agent(folder, case["start"], build)
    begin = time.monotonic()
    command, env = command_of(build, ranks, [*options, "--drill", ",".join(drills)], out, environment)
    run = Run([*case["front"], *command], env)
    if case["strike"]:
        run.wait_for_step(STEP)
        run.struck = time.monotonic()
        case["strike"](run)
    elif case["start"] or case["front"]:
        run.struck = begin
    code = run.end()
    if ranks == "hosts":
        set_cable("up")
        await_network()
    words = run.first_word()
    text = "\n".join(line for _, line in words)
    noticed = words[0][0] if words else None
    next_step = run.next_step(noticed)

    def behind_fault(t):
        return t - run.struck if t and run.struck else None
    return dict(code=code, noticed=behind_fault(noticed), next=behind_fault(next_step), ended=behind_fault(run.ended),
                named=bool(case["named"] and re.search(case["named"], text)), text=text, out=out, step=run.step())


def record_of(out):
    try:
        with open(os.path.join(out, "run.json")) as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def outcome(case, build, last):
    """What the run did, and the steps that were lost."""
    record = record_of(last["out"])
    if case["start"] or case["front"]:
        return "did not start", "-"
    if last["code"] == 0:
        restarts = record.get("restarts") or []
        if restarts:
            return "restarted, complete", str(restarts[0].get("steps_lost"))
        if record.get("lost_workers"):
            return "the others went on, complete", "0"
        skipped = record.get("totals", {}).get("skipped_steps", 0)
        return f"complete, {skipped} step left out" if skipped else "complete", str(skipped or 0)
    if not case["resume"]:
        return "ended", "-"
    time.sleep(0.5 if last["code"] != 137 else 3)  # ranks of a killed launcher save by themselves
    done = subprocess.run([os.path.join(build, "ronde"), "train", "--quiet", "--resume", last["out"], "--transport", "threads"],
                          capture_output=True, text=True, timeout=100)
    if done.returncode:
        return "ended, NOT RESUMED: " + done.stderr.strip().splitlines()[-1], "-"
    resumed = (record_of(last["out"]).get("resumed_from") or {}).get("step")
    return "ended, resumed", "-" if resumed is None else str(max(0, last["step"] - resumed))


def spread(values):
    values = [v for v in values if v is not None]
    return f"{statistics.median(values):.2f}, {max(values):.2f}" if values else "-"


def go_through(args, ranks):
    bad = 0
    for case in FAULTS:
        if ranks not in case["ranks"] or (args.only and not re.search(args.only, case["name"])):
            continue
        for strategy in [s for s in case["strategies"] if not args.strategies or s in args.strategies.split(",")]:
            folder = tempfile.mkdtemp(prefix="ronde-faults-")
            wanted = {case["threads_exit"]} if ranks == "threads" and case["threads_exit"] else case["exit"]
            rounds = [one_round(case, args.build, ranks, strategy, folder, i) for i in range(args.rounds)]
            codes = sorted({str(r["code"]) for r in rounds})
            did, lost = outcome(case, args.build, rounds[-1])
            is_bad = any(r["code"] not in wanted for r in rounds) or "NOT" in did
            named = "-" if not case["named"] else f"{sum(r['named'] for r in rounds)} of {len(rounds)}"
            then = "next" if wanted == {0} else "ended"
            print(f"| {case['name']} | {ranks} | {strategy} | {len(rounds)} | {spread(r['noticed'] for r in rounds)} | {named} "
                  f"| {spread(r[then] for r in rounds)} | {', '.join(codes)} | {did} | {lost} |", flush=True)
            if is_bad or (case["named"] and ranks != "threads" and not all(r["named"] for r in rounds)):
                print(f"{case['name']}, {ranks}, {strategy}: exit codes {codes}:\n{rounds[-1]['text']}", file=sys.stderr, flush=True)
            bad += is_bad
            shutil.rmtree(folder, ignore_errors=True)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--ranks", default=ALL.replace(" ", ","))
    parser.add_argument("--strategies", help="of those of the rows, these alone")
    parser.add_argument("--only", help="a regular expression of the faults' names")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    if not args.inside:
        print("| fault | ranks | strategy | rounds | noticed after s: median, worst | named | next step or end after s: median, worst "
              "| exit code | the run | steps lost |\n|---|---|---|---|---|---|---|---|---|---|", flush=True)
    bad = 0
    for ranks in args.ranks.split(","):
        if ranks != "hosts" or args.inside:
            bad += go_through(args, ranks)
            continue
        os.environ["FAULTS"] = " ".join(f"'{w}'" for w in [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--inside",
                                                              "--ranks", "hosts"])
        bad += subprocess.run([HOSTS, "with", "3", "--", 'eval "$FAULTS"']).returncode != 0
    return 7 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

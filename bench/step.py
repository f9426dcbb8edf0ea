#!/usr/bin/env python3
"""One training step, Ronde beside PyTorch: two living processes, alternated in rounds, so that a clock that moves moves both.

    python3 bench/step.py --bench build/bench_step --model lenet5 --batch 42 [--optimizer adam] [--threads 1] [--rounds 9] [--steps 30]

Run it with the Python that has PyTorch (see bench/peers/pytorch_step.py, plain and --channels-last: both are timed, the faster one
counts). Prints a line per round and the median of the ratios with their extremes; peak memory of both, and what importing PyTorch
alone takes. `make -C build bench_step` builds Ronde's side.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


class System:
    def __init__(self, name, command, threads):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads))
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.about = json.loads(self.process.stdout.readline())

    def go(self, steps):
        self.process.stdin.write(f"go {steps}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def quit(self):
        self.process.stdin.write("quit\n")
        self.process.stdin.close()
        self.process.wait(timeout=30)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/bench_step")
    parser.add_argument("--model", default="lenet5")
    parser.add_argument("--batch", type=int, default=42)
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    case = ["--model", args.model, "--batch", str(args.batch), "--optimizer", args.optimizer, "--threads", str(args.threads)]
    peer = [sys.executable, str(HERE / "peers" / "pytorch_step.py")]
    systems = [System("ronde", [args.bench] + case, args.threads), System("pytorch", peer + case, args.threads),
               System("pytorch channels-last", peer + case + ["--channels-last"], args.threads)]
    times = {s.name: [] for s in systems}
    memory = {}
    for s in systems:
        s.go(args.steps)  # warm-up
    for r in range(args.rounds):
        for s in systems:
            answer = s.go(args.steps)
            times[s.name].append(answer["median_ms"])
            memory[s.name] = answer["peak_rss_bytes"]
        print("round %d  " % (r + 1) + "  ".join("%s %.3f ms" % (n, t[-1]) for n, t in times.items()), flush=True)
    for s in systems:
        s.quit()
    for name in list(times)[1:]:
        ratios = [theirs / own for own, theirs in zip(times["ronde"], times[name])]
        print("%s / ronde: median %.2f, %.2f to %.2f" % (name, statistics.median(ratios), min(ratios), max(ratios)))
    imported = systems[1].about.get("import_rss_bytes")
    print("peak memory: " + ", ".join("%s %.0f MB" % (n, b / 1e6) for n, b in memory.items()) +
          (" (importing it alone: %.0f MB)" % (imported / 1e6) if imported else ""))


if __name__ == "__main__":
    main()

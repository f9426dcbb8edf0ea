#!/usr/bin/env python3
"""How long a host takes to join, in network namespaces (root): a small training (lenet5, 20 ms a step at least) runs on two hosts, and
a third is added to the file of hosts at step 100. Prints for each round, and their medians and worst, after how long the launcher said
so, after how long the first step with it was printed, and for how long no step was. OPTIONS of `ronde train` take the place of the
network, its data and the 20 ms.

    tests/hosts.sh with 3 -- 'scripts/join_time.py BUILD_DIR ROUNDS [OPTIONS...]'
"""
import os
import re
import statistics
import sys
import tempfile
import time

import faults

SMALL = [*faults.TRAINING, "--drill", "slow:0:20"]
OPTIONS = ["--iface", "10.91.7.0/24", "--on-loss", "restart", "--elastic", "--epochs", "20", "--steps", "200"]


def one_round(build, folder, network):
    """Seconds until it is said, until the next step, and between two steps."""
    hosts = os.path.join(folder, "hosts")
    with open(hosts, "w") as file:
        file.write("ronde1\nronde2\n")
    command = [os.path.join(build, "ronde"), "train", *network, *OPTIONS, "--hostfile", hosts, "--out", os.path.join(folder, "run")]
    run = faults.Run(command, dict(os.environ, OMPI_MCA_plm_rsh_agent=f"{faults.HOSTS} agent"))
    run.wait_for_step(100)
    begin = time.monotonic()
    with open(hosts, "a") as file:
        file.write("ronde3\n")
    code = run.end()
    said = next((t for t, line in run.lines if re.search("joins?: goes on", line)), None)
    steps = [t for t, line in run.lines if re.match(r"step \d+/", line)]
    if code or said is None:
        raise RuntimeError(f"nobody joined, exit code {code}: {run.lines[-1:]}")
    before, behind = max(t for t in steps if t < said), min(t for t in steps if t > said)
    return said - begin, behind - begin, behind - before


def main():
    rounds = []
    for i in range(int(sys.argv[2])):
        with tempfile.TemporaryDirectory(prefix="ronde-join-") as folder:
            rounds.append(one_round(sys.argv[1], folder, sys.argv[3:] or SMALL))
        print("said after %.2f s, next step after %.2f s, no step for %.2f s" % rounds[i], flush=True)
    for name, values in zip(("said after", "next step after", "no step for"), zip(*rounds)):
        print(f"{name}: median {statistics.median(values):.2f} s, worst {max(values):.2f} s")


if __name__ == "__main__":
    main()

"""The hosts of a cluster (cluster.py): starts host_side.py on each by ssh, or what OMPI_MCA_plm_rsh_agent names in its place, as
Ronde starts its own ranks. Program, scripts and the peers' folder have the same paths on all hosts."""

import collections
import json
import os
import pathlib
import queue
import shlex
import subprocess
import sys
import threading
import time

SIDE = pathlib.Path(__file__).resolve().parent / "host_side.py"
AGENT = "ssh -o BatchMode=yes -o ConnectTimeout=10"
READY_S = 600  # decoding of the data among it


def hosts_of_ranks(text, workers):
    """Names; ranks go round the hosts, one in turn, a host with all its slots ("a:2") taken left out, as Ronde's do."""
    slots = collections.OrderedDict()
    for one in text.split(","):
        name, _, n = one.partition(":")
        slots[name] = slots.get(name, 0) + int(n or 1)
    if sum(slots.values()) < workers:  # more workers than was said: each host has room
        slots = dict.fromkeys(slots, workers)
    names, ranks = list(slots), []
    while len(ranks) < workers:
        for name in names:
            if slots[name] > 0 and len(ranks) < workers:
                slots[name] -= 1
                ranks.append(name)
    return ranks


class Hosts:
    def __init__(self, names, stuck_s, fail):
        self.names, self.stuck_s, self.fail = list(dict.fromkeys(names)), stuck_s, fail
        self.messages, self.sides, self.about = queue.Queue(), {}, {}
        for name in self.names:
            command = shlex.join([os.path.abspath(sys.executable), "-W", "ignore", str(SIDE)])
            agent = os.environ.get("OMPI_MCA_plm_rsh_agent", AGENT).split()
            self.sides[name] = subprocess.Popen([*agent, name, command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self.listen, args=(name,), daemon=True).start()

    def listen(self, name):
        for line in self.sides[name].stdout:
            self.messages.put((name, json.loads(line)))
        self.messages.put((name, None))

    def tell(self, name, **message):
        try:
            self.sides[name].stdin.write(json.dumps(message) + "\n")
            self.sides[name].stdin.flush()
        except BrokenPipeError:
            self.give_up(f"host {name} cannot be reached, or {sys.executable} not be run there")

    def give_up(self, text):
        self.end()
        self.fail(text)

    def next_message(self, within_s):
        try:
            name, message = self.messages.get(timeout=within_s)
        except queue.Empty:
            self.give_up(f"the hosts {', '.join(self.names)} have not answered within {within_s:.0f} s")
        if message is None:
            self.give_up(f"host {name} cannot be reached, or its side of the peer has ended")
        return name, message

    def prepare(self, ronde, plan, of):
        """Weights and data on each, and a place for each process: of [processes], its host. (address, port, interface) of each."""
        for name in self.names:
            self.tell(name, ronde=os.path.abspath(ronde), plan=plan, iface=plan["config"].get("iface"), n=of.count(name))
        while len(self.about) < len(self.names):
            name, message = self.next_message(READY_S)
            self.about[name] = message
        ports = {name: iter(about["ports"]) for name, about in self.about.items()}
        return [(self.about[name]["address"], next(ports[name]), self.about[name]["iface"]) for name in of]

    def run(self, processes, of, n_reports):
        """What the first n_reports of the processes said, in their order."""
        for name in self.names:
            self.tell(name, processes=[one for one, host in zip(processes, of) if host == name])
        said, ticks, since = {}, {}, time.monotonic()
        while len(said) < n_reports:
            name, message = self.next_message(self.stuck_s)
            if "failed" in message:
                self.give_up(f"a worker on host {name} ended without a result: {message['failed']}")
            if "report" in message:
                said[message["index"]] = dict(message["report"], host=self.about[name]["host"])
            elif message["ticks"] != ticks.get(name):
                ticks[name], since = message["ticks"], time.monotonic()
            if time.monotonic() - since > self.stuck_s:
                self.give_up(f"no process has computed for {self.stuck_s} s")
        self.end()
        return [said[i] for i in range(n_reports)]

    def end(self):
        for side in self.sides.values():
            try:
                side.stdin.close()
            except BrokenPipeError:  # it had gone before
                pass
        for side in self.sides.values():
            try:
                side.wait(timeout=20)
            except subprocess.TimeoutExpired:
                side.kill()

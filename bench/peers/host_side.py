#!/usr/bin/env python3
"""The processes of a cluster (cluster.py) on one of its hosts, started there by ssh. Speaks lines of JSON on stdin and stdout:

    <- {"ronde", "plan", "iface", "n"}                 what is trained, and how many processes come here
    -> {"host", "address", "iface", "ports", "cores", "shape"}     when weights and data are there
    <- {"processes": [{"index", "script", "spec", "environment", "reports"}]}
    -> {"index", "report"} of each that reports, {"index", "failed"} of one that ended without, {"ticks"} every second

Ends all of them when stdin ends. Requirements: numpy, and the system.
"""

import fcntl
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from files import prepare

SCRIPTS = pathlib.Path(__file__).resolve().parent
SIOCGIFADDR = 0x8915
write_lock = threading.Lock()


def say(**message):
    with write_lock:
        print(json.dumps(message), flush=True)


def address_of(iface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            return socket.inet_ntoa(fcntl.ioctl(one.fileno(), SIOCGIFADDR, struct.pack("256s", iface[:15].encode()))[20:24])
        except OSError:
            return None  # it has none


def find_address(iface):
    """(interface, address) by which the other hosts reach this one: as asked, that of the ssh connection, or the first."""
    came_to = (os.environ.get("SSH_CONNECTION", "").split() + [""] * 4)[2]
    all_here = [(name, address_of(name)) for _, name in socket.if_nameindex() if name not in ("lo", "docker0", "virbr0")]
    found = [(name, address) for name, address in all_here if address]
    if iface:
        found = [one for one in found if one[0] == iface]
    return next((one for one in found if one[1] == came_to), found[0] if found else sys.exit(f"no address of {iface or 'any interface'}"))


def free_ports(address, n):
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind((address, 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def cpu_ticks(process):
    try:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, IndexError):
        return 0


def start(one, folder):
    path, log = folder / f"process-{one['index']}.json", folder / f"process-{one['index']}.log"
    path.write_text(json.dumps(one["spec"]))
    return subprocess.Popen([sys.executable, "-W", "ignore", str(SCRIPTS / one["script"]), str(path)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=log.open("w"), text=True, env=dict(os.environ, **one["environment"]))


def hand_on(one, process, folder):
    line = process.stdout.readline()
    if line:
        say(index=one["index"], report=json.loads(line))
    else:
        end = (folder / f"process-{one['index']}.log").read_text().strip().splitlines() or ["it said nothing"]
        say(index=one["index"], failed=end[-1][:400])


def tell_ticks(started):
    while True:
        time.sleep(1)
        say(ticks=sum(map(cpu_ticks, started)))


def main(folder):
    line = sys.stdin.readline()
    if not line:  # whoever started it is gone
        return
    asked = json.loads(line)
    images, weights, shape = prepare(asked["ronde"], asked["plan"], folder)
    iface, address = find_address(asked["iface"])
    say(host=socket.gethostname(), address=address, iface=iface, ports=free_ports(address, asked["n"]),
        cores=len(os.sched_getaffinity(0)), shape=list(shape))
    started = []
    try:
        for one in json.loads(sys.stdin.readline() or '{"processes": []}')["processes"]:
            one["spec"].update(weights=str(weights), data=str(images))
            started.append(start(one, folder))
            if one["reports"]:
                threading.Thread(target=hand_on, args=(one, started[-1], folder), daemon=True).start()
        threading.Thread(target=tell_ticks, args=(started,), daemon=True).start()
        sys.stdin.read()  # until the other side has all that it wants, or is gone
    finally:
        for process in started:
            process.kill()
            process.wait()


here = pathlib.Path(tempfile.mkdtemp(prefix="ronde-peer-"))
try:
    main(here)
finally:
    shutil.rmtree(here, ignore_errors=True)

"""LSTM, GRU and attention, forward and backward, one thread: how many times as fast as PyTorch's (oneDNN). Alternated.

    make peers                                    # PyTorch
    peers/pytorch/bin/python bench/sequences.py --build build [--rounds 7]

Both make the same operations on random operands: of an LSTM the gradients of the input and of all weights, of attention
those of query, key and value. Medians of rounds; the ratio is the median of the rounds' ratios.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import torch

CASES = [  # op, N, T, F, H or heads, causal
    ("lstm", 32, 50, 256, 256, False),
    ("lstm", 32, 50, 512, 512, False),
    ("lstm", 64, 50, 1024, 1024, False),
    ("gru", 32, 50, 512, 512, False),
    ("attention", 8, 128, 512, 8, False),
    ("attention", 8, 128, 768, 12, False),
    ("attention", 4, 512, 512, 8, True),
    ("attention", 2, 1024, 512, 8, True),
]


def torch_step(op, n, t, f, by, causal):
    torch.manual_seed(1)
    if op == "attention":
        x = [torch.randn(n, t, by, f // by).transpose(1, 2).requires_grad_() for _ in range(3)]
        gradient = torch.randn(n, by, t, f // by)

        def step():
            y = torch.nn.functional.scaled_dot_product_attention(*x, is_causal=causal)
            y.backward(gradient)
            for one in x:
                one.grad = None
    else:
        layer = (torch.nn.LSTM if op == "lstm" else torch.nn.GRU)(f, by, batch_first=True)
        x = torch.randn(n, t, f, requires_grad=True)
        gradient = torch.randn(n, t, by)

        def step():
            y, _ = layer(x)
            y.backward(gradient)
            x.grad = None
            for parameter in layer.parameters():
                parameter.grad = None

    return step


def build(folder, program):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sequences.c")
    libraries = subprocess.run(["pkg-config", "--libs", "libxsmmext", "libxsmm"], capture_output=True, text=True)
    root = os.path.dirname(os.path.dirname(source))
    command = ["cc", "-O2", "-std=gnu11", source, "-I" + root + "/src", "-I" + root + "/include", "-o", program,
               os.path.join(folder, "libronde.a")]
    command += ["-ljansson", "-lz", "-lssl", "-lcrypto", "-lxxhash", "-lpng", "-ljpeg", "-lcurl", "-lprotobuf-c"]
    command += (libraries.stdout.split() if libraries.returncode == 0 else ["-lxsmm", "-lblas"])
    command += ["-lmpi", "-lm", "-lpthread", "-ldl"]
    subprocess.run(command, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    torch.set_num_threads(1)
    program = os.path.join(tempfile.mkdtemp(), "sequences")
    build(options.build, program)
    print("%-28s %12s %12s %14s   %s" % ("op N T F H", "ronde ms", "pytorch ms", "times as fast", "GFLOP/s"))
    for case in CASES:
        if options.only not in case[0]:
            continue
        op, n, t, f, by, causal = case
        words = [program, op, str(n), str(t), str(f), str(by)] + (["causal"] if causal else [])
        ours = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        work = json.loads(ours.stdout.readline())

        def go(k):
            ours.stdin.write("go %d\n" % k)
            return json.loads(ours.stdout.readline())

        step = torch_step(*case)
        step(), go(1)
        begin = time.perf_counter()
        step()
        k = max(1, int(0.3 / (time.perf_counter() - begin)))
        mine, forward, theirs = [], [], []
        for _ in range(options.rounds):
            answer = go(k)
            mine.append(answer["seconds"] / k)
            forward.append(answer["forward"] / k)
            begin = time.perf_counter()
            for _ in range(k):
                step()
            theirs.append((time.perf_counter() - begin) / k)
        ours.stdin.close()
        ratio = statistics.median(b / a for a, b in zip(mine, theirs))
        ahead, whole = statistics.median(forward), statistics.median(mine)
        print("%-28s %12.3f %12.3f %14.2f   %.0f forward, %.0f backward" % (
            " ".join(words[1:]), whole * 1e3, statistics.median(theirs) * 1e3, ratio,
            work["forward_flops"] / ahead / 1e9, work["backward_flops"] / (whole - ahead) / 1e9), flush=True)


if __name__ == "__main__":
    main()

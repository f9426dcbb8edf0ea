#!/usr/bin/env python3
"""Training steps in TensorFlow, on command: see system.py, and `ronde bench step --peers tensorflow`.

One tf.function, without XLA; channels last, the only form its convolutions have on CPUs; SAME where that is the
network's padding, else padded explicitly and VALID (the padding list of tf.nn.conv2d is four times slower); fused
optimizer ops; oneDNN's kernels, which it leaves out by default on CPUs without AVX-512, and is three times slower then
(lenet5). --tcmalloc preloads it. --bf16: mixed precision as Keras has it, activations and copies of weights in bfloat16,
variables, batch statistics and loss in f32. --eager: op by op, without tf.function.
Requirements: tensorflow-cpu >= 2.16, numpy.
"""

import system

args = system.arguments("--tcmalloc", "--bf16", "--eager")
system.prepare(args.threads, tcmalloc=args.tcmalloc, needs_it=True)

import networks  # noqa: E402
import tensorflow_sequences as sequences  # noqa: E402
import tensorflow_speech as speech  # noqa: E402
from tensorflow_ops import Ops, tf  # noqa: E402


def cross_entropy(logits, labels):
    logits = tf.reshape(logits, [-1, logits.shape[-1]])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(labels, [-1]), logits=logits))


def network(ops, file):
    """A function of a batch; the batch as it takes it; and the loss. None: the network is not written here."""
    if sequences.knows(args.model):
        return sequences.network(args.model, ops), tf.constant(file.x), cross_entropy
    if speech.knows(args.model):
        net, loss = speech.network(args.model, ops)
        return net, tf.constant(file.x), loss
    if args.model not in networks.NETWORKS:
        return None
    size = file.x.shape[2:]
    return (lambda x: networks.build(args.model, ops, ops.cast(x), args.padding, size),
            tf.constant(file.x.transpose(0, 2, 3, 1)), cross_entropy)


def main():
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    file = system.File(args.file)
    ops, y = Ops(file, args.bf16), tf.constant(file.labels.astype("int32"))
    found = network(ops, file)
    if not found:
        system.absent(f"{args.model} is not written in TensorFlow")
        return
    net, x, loss_of = found
    net(x[:1])  # makes the variables
    flops = ops.flops
    for mean, variance in ops.running.values():
        mean.assign(tf.zeros_like(mean)), variance.assign(tf.ones_like(variance))
    variables = list(ops.variables.values())
    states = [[tf.Variable(tf.zeros_like(v)) for v in variables] for _ in range(2 if args.optimizer == "adam" else 1)]
    powers = tf.Variable(0.9), tf.Variable(0.999)

    def update(i, gradient):
        handle = variables[i].handle
        if args.optimizer == "adam":
            epsilon = 1e-8 * tf.sqrt(1 - powers[1])  # added in front of the correction of v here, behind it in the others
            tf.raw_ops.ResourceApplyAdam(
                var=handle, m=states[0][i].handle, v=states[1][i].handle, beta1_power=powers[0], beta2_power=powers[1],
                lr=args.lr, beta1=0.9, beta2=0.999, epsilon=epsilon, grad=gradient,
            )
        elif args.momentum:
            tf.raw_ops.ResourceApplyMomentum(
                var=handle, accum=states[0][i].handle, lr=args.lr, grad=gradient, momentum=args.momentum
            )
        else:
            tf.raw_ops.ResourceApplyGradientDescent(var=handle, alpha=args.lr, delta=gradient)

    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(tf.cast(net(x), tf.float32), y)
        for i, gradient in enumerate(tape.gradient(loss, variables)):
            update(i, tf.convert_to_tensor(gradient))
        if args.optimizer == "adam":
            powers[0].assign(powers[0] * 0.9), powers[1].assign(powers[1] * 0.999)
        return loss

    parameters = sum(int(tf.size(v)) for v in variables)
    system.serve(args, step if args.eager else tf.function(step), parameters, flops, version=tf.__version__)


main()

#!/usr/bin/env python3
"""Epochs of mnist-small on Fashion-MNIST in TensorFlow: shuffled training over all 60,000 images and a test over 10,000,
Adam at 0.001.

    python3 bench/peers/tensorflow_epochs.py --loop --epochs 3     a hand-written loop of tf.functions over a cached tf.data
    python3 bench/peers/tensorflow_epochs.py --keras --epochs 3    Keras: compile and fit on arrays, as its guides have it

Prints a JSON line an epoch: {"epoch", "wall_s", "test_accuracy"}. What is done once, reading the files and tracing
apart, is in the first one. See bench/epochs.py.
Requirements: tensorflow-cpu >= 2.16, numpy.
"""

import argparse
import json
import pathlib
import time

import numpy as np

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
kind = parser.add_mutually_exclusive_group(required=True)
kind.add_argument("--loop", action="store_true")
kind.add_argument("--keras", action="store_true")
parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--threads", type=int, default=1)
args = parser.parse_args()

from fashion_mnist import DEVIATION, MEAN, read_idx  # noqa: E402
from tensorflow_ops import tf  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(args.threads)
tf.config.threading.set_inter_op_parallelism_threads(1)


def load(split):
    x = read_idx(args.data / f"{split}-images-idx3-ubyte.gz").astype(np.float32)
    y = read_idx(args.data / f"{split}-labels-idx1-ubyte.gz").astype(np.int64)
    return ((x / 255 - MEAN) / DEVIATION)[..., None], y


def make_model():
    return tf.keras.Sequential(
        [
            tf.keras.layers.Input((28, 28, 1)),
            tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )


def say(epoch, begin, accuracy):
    line = {"epoch": epoch, "wall_s": round(time.perf_counter() - begin, 3), "test_accuracy": round(float(accuracy), 4)}
    print(json.dumps(line), flush=True)


def run_keras(train, test):
    class Clock(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.begin = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            say(epoch + 1, self.begin, logs["val_accuracy"])

    model = make_model()
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.001), loss, metrics=["accuracy"])
    model.fit(*train, batch_size=args.batch, epochs=args.epochs, validation_data=test, callbacks=[Clock()], verbose=0)


def run_loop(train, test):
    model = make_model()
    weights, powers = model.trainable_variables, (tf.Variable(0.9), tf.Variable(0.999))
    means, squares = ([tf.Variable(tf.zeros_like(w)) for w in weights] for _ in range(2))
    sets = tf.data.Dataset.from_tensor_slices(train).cache().shuffle(len(train[0])).batch(args.batch).prefetch(2)
    tests = tf.data.Dataset.from_tensor_slices(test).batch(1000).cache().prefetch(2)

    @tf.function(reduce_retracing=True)
    def step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        for w, m, v, gradient in zip(weights, means, squares, tape.gradient(loss, weights)):
            tf.raw_ops.ResourceApplyAdam(
                var=w.value.handle, m=m.handle, v=v.handle, beta1_power=powers[0], beta2_power=powers[1],
                lr=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, grad=gradient,
            )
        powers[0].assign(powers[0] * 0.9), powers[1].assign(powers[1] * 0.999)
        return loss

    @tf.function(reduce_retracing=True)
    def n_right(x, y):
        return tf.reduce_sum(tf.cast(tf.argmax(model(x), 1) == y, tf.int32))

    for epoch in range(1, args.epochs + 1):
        begin = time.perf_counter()
        for x, y in sets:
            step(x, y)
        right = sum(int(n_right(x, y)) for x, y in tests)
        say(epoch, begin, right / len(test[0]))


(run_keras if args.keras else run_loop)(load("train"), load("t10k"))

"""The networks, once for the frameworks that are told what to compute op by op (TensorFlow, MXNet).

`ops` has the layers: conv(x, name, stride, padding), linear(x, name), batch_norm(x, name), relu, tanh, max_pool(x,
kernel, stride, padding), avg_pool(x, kernel), adaptive_pool(x, size), flatten, add. Channels follow from the weights,
which carry PyTorch's names.
"""


def lenet5(ops, x, padding, small):
    x = ops.avg_pool(ops.tanh(ops.conv(x, "conv1", 1, 2 if small else 0)), 2)
    x = ops.flatten(ops.avg_pool(ops.tanh(ops.conv(x, "conv2", 1, 0)), 2))
    return ops.linear(ops.tanh(ops.linear(ops.tanh(ops.linear(x, "fc1")), "fc2")), "fc3")


def mnist(convs, linears):
    def build(ops, x, padding, small):
        for i in range(convs):
            x = ops.conv(x, f"conv{i + 1}", 1, 1 if padding == "same" else 0)
            x = ops.max_pool(ops.relu(x), 2, 2, 0)
        x = ops.flatten(x)
        for i in range(linears - 1):
            x = ops.relu(ops.linear(x, f"fc{i + 1}"))
        return ops.linear(x, f"fc{linears}")

    return build


def alexnet(ops, x, padding, small):
    for index, stride, pad, pooled in [(0, 4, 2, True), (3, 1, 2, True), (6, 1, 1, False), (8, 1, 1, False), (10, 1, 1, True)]:
        x = ops.relu(ops.conv(x, f"features.{index}", stride, pad))
        x = ops.max_pool(x, 3, 2, 0) if pooled else x
    x = ops.flatten(ops.adaptive_pool(x, 6))
    x = ops.relu(ops.linear(ops.relu(ops.linear(x, "classifier.1")), "classifier.4"))
    return ops.linear(x, "classifier.6")


def resnet(blocks, bottleneck, small_stem):
    def block(ops, x, name, stride, channels_change):
        paddings, strides = ([0, 1, 0], [1, stride, 1]) if bottleneck else ([1, 1], [stride, 1])
        y = x
        for i, (pad, step) in enumerate(zip(paddings, strides), 1):
            y = ops.batch_norm(ops.conv(y, f"{name}.conv{i}", step, pad), f"{name}.bn{i}")
            y = ops.relu(y) if i < len(strides) else y
        if channels_change:
            x = ops.batch_norm(ops.conv(x, f"{name}.downsample.0", stride, 0), f"{name}.downsample.1")
        return ops.relu(ops.add(y, x))

    def build(ops, x, padding, small):
        x = ops.conv(x, "conv1", 1, 1) if small_stem else ops.conv(x, "conv1", 2, 3)
        x = ops.relu(ops.batch_norm(x, "bn1"))
        x = x if small_stem else ops.max_pool(x, 3, 2, 1)
        for stage, n in enumerate(blocks):
            for i in range(n):
                change = i == 0 and (stage > 0 or bottleneck)
                x = block(ops, x, f"layer{stage + 1}.{i}", 2 if stage > 0 and i == 0 else 1, change)
        return ops.linear(ops.flatten(ops.adaptive_pool(x, 1)), "fc")

    return build


NETWORKS = {
    "lenet5": lenet5,
    "mnist-small": mnist(1, 2),
    "mnist-large": mnist(3, 3),
    "alexnet": alexnet,
    "resnet18": resnet([2, 2, 2, 2], False, False),
    "resnet18-cifar": resnet([2, 2, 2, 2], False, True),
    "resnet50": resnet([3, 4, 6, 3], True, False),
}


def build(model, ops, x, padding, size):
    return NETWORKS[model](ops, x, padding, size == (28, 28))

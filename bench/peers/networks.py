"""The networks, once for the frameworks that are told what to compute op by op (TensorFlow, MXNet).

`ops` has the layers: conv(x, name, stride, padding), linear(x, name), batch_norm(x, name, eps), relu, tanh, max_pool(x,
kernel, stride, padding), avg_pool(x, kernel), average_around(x) (3x3, zeros around the map counted), adaptive_pool(x, size),
flatten, add, concat. Channels follow from the weights, which carry PyTorch's names. A padding is of both sides, or (rows, columns).
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


def vgg16(ops, x, padding, small):
    index = 0
    for convolutions in (2, 2, 3, 3, 3):
        for _ in range(convolutions):
            x = ops.relu(ops.conv(x, f"features.{index}", 1, 1))
            index += 2
        x = ops.max_pool(x, 2, 2, 0)
        index += 1
    x = ops.flatten(ops.adaptive_pool(x, 7))
    x = ops.relu(ops.linear(ops.relu(ops.linear(x, "classifier.0")), "classifier.3"))
    return ops.linear(x, "classifier.6")


class Inception:
    """torchvision's Inception-v3 without the auxiliary classifier. A branch is (name, stride, padding) of its convolutions; the
    last one may be a list, whose maps lie side by side."""

    ROW, COLUMN = (0, 3), (3, 0)  # of seven
    A = [[("branch1x1", 1, 0)], [("branch5x5_1", 1, 0), ("branch5x5_2", 1, 2)],
         [("branch3x3dbl_1", 1, 0), ("branch3x3dbl_2", 1, 1), ("branch3x3dbl_3", 1, 1)]]
    B = [[("branch3x3", 2, 0)], [("branch3x3dbl_1", 1, 0), ("branch3x3dbl_2", 1, 1), ("branch3x3dbl_3", 2, 0)]]
    C = [[("branch1x1", 1, 0)], [("branch7x7_1", 1, 0), ("branch7x7_2", 1, ROW), ("branch7x7_3", 1, COLUMN)],
         [("branch7x7dbl_1", 1, 0), ("branch7x7dbl_2", 1, COLUMN), ("branch7x7dbl_3", 1, ROW),
          ("branch7x7dbl_4", 1, COLUMN), ("branch7x7dbl_5", 1, ROW)]]
    D = [[("branch3x3_1", 1, 0), ("branch3x3_2", 2, 0)],
         [("branch7x7x3_1", 1, 0), ("branch7x7x3_2", 1, ROW), ("branch7x7x3_3", 1, COLUMN), ("branch7x7x3_4", 2, 0)]]
    E = [[("branch1x1", 1, 0)],
         [("branch3x3_1", 1, 0), [("branch3x3_2a", 1, (0, 1)), ("branch3x3_2b", 1, (1, 0))]],
         [("branch3x3dbl_1", 1, 0), ("branch3x3dbl_2", 1, 1),
          [("branch3x3dbl_3a", 1, (0, 1)), ("branch3x3dbl_3b", 1, (1, 0))]]]

    def __init__(self, ops):
        self.ops = ops

    def conv(self, x, name, stride, padding):
        x = self.ops.conv(x, f"{name}.conv", stride, padding)
        return self.ops.relu(self.ops.batch_norm(x, f"{name}.bn", 1e-3))

    def branch(self, x, name, parts):
        for part in parts:
            if isinstance(part, list):
                return self.ops.concat([self.conv(x, f"{name}.{end}", *rest) for end, *rest in part])
            x = self.conv(x, f"{name}.{part[0]}", *part[1:])
        return x

    def block(self, x, name, branches, halves):
        maps = [self.branch(x, name, parts) for parts in branches]
        if halves:
            return self.ops.concat(maps + [self.ops.max_pool(x, 3, 2, 0)])
        return self.ops.concat(maps + [self.conv(self.ops.average_around(x), f"{name}.branch_pool", 1, 0)])


def inception_v3(ops, x, padding, small):
    net = Inception(ops)
    for name, stride, pad in [("Conv2d_1a_3x3", 2, 0), ("Conv2d_2a_3x3", 1, 0), ("Conv2d_2b_3x3", 1, 1)]:
        x = net.conv(x, name, stride, pad)
    x = net.conv(ops.max_pool(x, 3, 2, 0), "Conv2d_3b_1x1", 1, 0)
    x = ops.max_pool(net.conv(x, "Conv2d_4a_3x3", 1, 0), 3, 2, 0)
    for kind, letters, halves in [(net.A, "5b 5c 5d", False), (net.B, "6a", True), (net.C, "6b 6c 6d 6e", False),
                                  (net.D, "7a", True), (net.E, "7b 7c", False)]:
        for letter in letters.split():
            x = net.block(x, f"Mixed_{letter}", kind, halves)
    return ops.linear(ops.flatten(ops.adaptive_pool(x, 1)), "fc")


NETWORKS = {
    "lenet5": lenet5,
    "mnist-small": mnist(1, 2),
    "mnist-large": mnist(3, 3),
    "alexnet": alexnet,
    "resnet18": resnet([2, 2, 2, 2], False, False),
    "resnet18-cifar": resnet([2, 2, 2, 2], False, True),
    "resnet50": resnet([3, 4, 6, 3], True, False),
    "vgg16": vgg16,
    "inception-v3": inception_v3,
}


def build(model, ops, x, padding, size):
    return NETWORKS[model](ops, x, padding, size == (28, 28))

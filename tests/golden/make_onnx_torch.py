"""A small residual network as PyTorch's exporter writes it for training, with outputs, loss and gradients of PyTorch in f64:
tests/golden/onnx/torch-resnet.onnx and .json. Needs PyTorch (2.15) and onnx, by hand:

    python tests/golden/make_onnx_torch.py tests/golden/onnx
"""

import json
import pathlib
import sys

import torch
from torch import nn

FOLDER = pathlib.Path(sys.argv[1])
BATCH, CLASSES = 3, 10


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.downsample = shortcut if channels != out else None

    def forward(self, x):
        shortcut = self.downsample(x) if self.downsample else x
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + shortcut)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
        self.maxpool, self.avgpool = nn.MaxPool2d(3, 2, 1), nn.AdaptiveAvgPool2d((1, 1))
        self.layer1 = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2))
        self.relu, self.act, self.drop, self.fc = nn.ReLU(), nn.SiLU(), nn.Dropout(0.0), nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.avgpool(self.layer1(self.maxpool(self.relu(self.bn1(self.conv1(x))))))
        return self.fc(self.drop(self.act(torch.flatten(x, 1))))


def numbers(values):
    return [float(f"{v:.9g}") for v in values.detach().double().numpy().ravel()]


torch.manual_seed(1)
net, x, labels = Net(), torch.randn(BATCH, 3, 16, 16), torch.arange(BATCH)
for part in net.modules():
    if isinstance(part, nn.BatchNorm2d):
        part.running_mean.uniform_(-0.3, 0.3)
        part.running_var.uniform_(0.5, 1.5)
        nn.init.uniform_(part.weight, 0.5, 1.5)
        nn.init.uniform_(part.bias, -0.3, 0.3)
torch.onnx.export(net.train(), (x,), FOLDER / "torch-resnet.onnx", training=torch.onnx.TrainingMode.TRAINING,
                  do_constant_folding=False, dynamo=False, input_names=["input"], dynamic_axes={"input": {0: "batch"}})
net.double()
outputs = net.eval()(x.double())
loss = nn.functional.cross_entropy(net.train()(x.double()), labels)
loss.backward()
expected = {"batch": BATCH, "x": numbers(x), "labels": labels.tolist(), "outputs": numbers(outputs), "loss": loss.item(),
            "gradients": {name: numbers(p.grad) for name, p in net.named_parameters()}}
(FOLDER / "torch-resnet.json").write_text(json.dumps(expected, indent=0) + "\n")

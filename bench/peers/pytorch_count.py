"""What PyTorch's scripts count of a network."""


def count_flops(torch, net, x):
    """Multiply-adds x 2 of one example's convolutions and linear layers."""
    flops = []

    def count(module, inputs, output):
        flops.append(2 * module.weight[0].numel() * output[0].numel())

    hooks = [m.register_forward_hook(count) for m in net.modules() if hasattr(m, "weight") and m.weight.dim() > 1]
    net.eval()
    with torch.no_grad():
        net(x[:1])
    net.train()
    for hook in hooks:
        hook.remove()
    return sum(flops)

"""What PyTorch's scripts count of a network."""


def count_flops(torch, net, x):
    """Multiply-adds x 2 of one example's convolutions, linear and recurrent layers, and of what counts itself."""
    flops = []

    def count(module, inputs, output):
        flops.append(2 * module.weight[0].numel() * output.numel())  # of a batch of one

    def count_steps(module, inputs, output):
        packed = isinstance(inputs[0], torch.nn.utils.rnn.PackedSequence)
        steps = inputs[0].data.shape[0] if packed else inputs[0].shape[1]
        flops.append(2 * steps * sum(p.numel() for p in module.parameters() if p.dim() > 1))

    def count_itself(module, inputs, output):
        flops.append(2 * module.multiply_adds(*inputs))

    def counter(module):
        if hasattr(module, "multiply_adds"):
            return count_itself
        if isinstance(module, torch.nn.RNNBase):
            return count_steps
        has_products = hasattr(module, "weight") and module.weight.dim() > 1
        return count if has_products and not isinstance(module, torch.nn.Embedding) else None

    hooks = [m.register_forward_hook(counter(m)) for m in net.modules() if counter(m)]
    net.eval()
    with torch.no_grad():
        net(x[:1])
    net.train()
    for hook in hooks:
        hook.remove()
    return sum(flops)

"""What MXNet's scripts count of a network."""


def count_flops(logits, shape):
    """Multiply-adds x 2 of one example, by the shapes that MXNet infers."""
    inside = logits.get_internals()
    arguments, outputs, _ = inside.infer_shape(data=(1,) + tuple(shape[1:]))
    weights, results = dict(zip(inside.list_arguments(), arguments)), dict(zip(inside.list_outputs(), outputs))
    flops = 0
    for output, shape_out in results.items():
        for kind in (".conv_output", ".linear_output"):
            if output.endswith(kind):
                weight = weights[output[: -len(kind)] + ".weight"]
                positions = 1
                for side in shape_out[2:]:
                    positions *= side
                inputs = 1
                for side in weight:
                    inputs *= side
                flops += 2 * inputs * positions
    return flops

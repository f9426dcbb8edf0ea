/* The suites of `ronde bench`. A suite is a verb behind the verb: its options are those that the library has under its
 * whole name. */
#include "common.h"

static const tool_verb suites[] = {
    {.name = "bench collectives",
     .words = "",
     .about = "All-reduce and other collectives between workers, by size",
     .has_config = true,
     .example = "ronde bench collectives --workers 2 --min 4K --max 64M",
     .run = tool_bench_collectives},
    {.name = "bench step",
     .words = "",
     .about = "One training step, beside the same step of PyTorch, TensorFlow and MXNet",
     .has_config = true,
     .example = "ronde bench step --model resnet18 --batch 42 --momentum 0.9 --threads 1 --peers pytorch,mxnet",
     .run = tool_bench_step},
    {.name = "bench kernels",
     .words = "",
     .about = "The kernels of each layer of a network, compared with this machine's peaks",
     .has_config = true,
     .example = "ronde bench kernels --model resnet18 --batch 42 --threads 1",
     .run = tool_bench_kernels},
};

const tool_verb *tool_bench_suite(int i) { return i < (int)(sizeof suites / sizeof suites[0]) ? &suites[i] : NULL; }

/* The suites of `ronde bench`. A suite is a verb behind the verb: its options are those that the library has under its
 * whole name, and the measuring is the library's. */
#include "common.h"

static const tool_verb suites[] = {
    {.name = "bench collectives",
     .words = "",
     .about = "All-reduce and its kin between workers, by size, beside each other",
     .has_config = true,
     .example = "ronde bench collectives --workers 2 --min 4K --max 64M",
     .run = tool_bench_collectives},
};

const tool_verb *tool_bench_suite(int i) { return i < (int)(sizeof suites / sizeof suites[0]) ? &suites[i] : NULL; }

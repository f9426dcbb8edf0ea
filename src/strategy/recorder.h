/* Records how long a rank computes in a step, when each parameter is needed, each gradient ready and its layer done, by the phases of
 * its ledger: what it waits for in between does not count. */
#ifndef RONDE_RECORDER_H
#define RONDE_RECORDER_H

#include "graph/graph.h"

typedef struct ronde__recorder ronde__recorder;

/* Of batches with so many examples; others, such as a short last one, are left out. net and prof must outlive it. */
ronde_status ronde__recorder_create(const ronde__net *net, const ronde__prof *prof, int64_t examples,
                                    ronde__recorder **recorder_out);
void ronde__recorder_destroy(ronde__recorder *recorder); /* NULL is taken */
/* NULL is taken by all four: nothing is recorded. A batch is loaded, and forward begins; */
void ronde__recorder_begin(ronde__recorder *recorder, int64_t n);
/* a parameter is about to be read; its gradient is final; its layer has ended too. */
void ronde__recorder_needed(ronde__recorder *recorder, int param);
void ronde__recorder_ready(ronde__recorder *recorder, int param);
void ronde__recorder_done(ronde__recorder *recorder, int param);
/* The medians of what was recorded up to now, without the first batch, which warms up. RONDE_E_USAGE where that leaves
 * none. spans_out: to be freed with ronde__spans_destroy; without model and threads. */
ronde_status ronde__recorder_finish(ronde__recorder *recorder, ronde__spans **spans_out);

#endif

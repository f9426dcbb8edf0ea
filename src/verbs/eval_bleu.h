/* Translations of examples, and how good they are. */
#ifndef RONDE_EVAL_BLEU_H
#define RONDE_EVAL_BLEU_H

#include "job/evaluate.h"
#include "job/job.h"
#include "verbs/bleu.h"

/* Counts BLEU (--bleu) over the share of the examples that `what` says: its verdicts and values are not used. At most its
 * chunk of hypotheses, but at least one example's, are computed at a time. Each byte of the longest translation of a chunk
 * costs a pass. Errors: RONDE_E_CANCELLED; RONDE_E_NUMERIC. */
ronde_status ronde__bleu_evaluate(const ronde__job *job, ronde__net *net, const ronde__evaluation *what,
                                  ronde__bleu *sums_out);
/* The member "bleu" of a result. */
json_t *ronde__bleu_json(const ronde__job *job, const ronde__bleu *sums);

#endif

/* The prepared states of ops that eager passes meet again: kernels resolved and tap lists made for an op's shapes. What
 * op comes next is no part of it: that is the model function's to say, each time. */
#ifndef RONDE_PREPARED_H
#define RONDE_PREPARED_H

#include "graph/plan.h"

typedef struct ronde__prepared ronde__prepared;

ronde_status ronde__prepared_create(ronde__prepared **prepared_out);
void ronde__prepared_destroy(ronde__prepared *prepared);
/* Completes a step whose op, desc (but for its form) and has_backward are set; its state is owned by `prepared`.
 * options: of all its steps the same, but for n. */
ronde_status ronde__prepared_get(ronde__prepared *prepared, const ronde__plan_options *options, ronde__plan_step *step);
/* Between passes: forgets everything where too much has gathered. */
void ronde__prepared_trim(ronde__prepared *prepared);
int ronde__prepared_count(const ronde__prepared *prepared);

#endif

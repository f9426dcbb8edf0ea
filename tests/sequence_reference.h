/* The oracles of LSTM, GRU, CTC and additive attention. */
#ifndef RONDE_SEQUENCE_REFERENCE_H
#define RONDE_SEQUENCE_REFERENCE_H

#include "ops_reference.h"

void recurrent_reference(const op_case *c, reference *r);
void ctc_reference(const op_case *c, reference *r);
void additive_reference(const op_case *c, reference *r);

#endif

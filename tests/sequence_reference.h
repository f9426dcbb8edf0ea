/* The oracles of LSTM, GRU and CTC. */
#ifndef RONDE_SEQUENCE_REFERENCE_H
#define RONDE_SEQUENCE_REFERENCE_H

#include "ops_reference.h"

void recurrent_reference(const op_case *c, reference *r);
void ctc_reference(const op_case *c, reference *r);

#endif

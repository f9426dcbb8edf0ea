/* The oracles of LSTM, GRU, CTC, and of additive and location-sensitive attention. */
#ifndef RONDE_SEQUENCE_REFERENCE_H
#define RONDE_SEQUENCE_REFERENCE_H

#include "ops_reference.h"

void recurrent_reference(const op_case *c, reference *r);
void ctc_reference(const op_case *c, reference *r);
void additive_reference(const op_case *c, reference *r);
void location_reference(const op_case *c, reference *r);
/* Sums become what is expected. */
void expect(expected *e, const double *exact, const double *magnitude);

#endif

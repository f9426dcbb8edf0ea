/* What layer norm and RMS norm share: rows of attr.length adjacent elements, each normalised by its own statistics. */
#ifndef RONDE_ROW_NORM_H
#define RONDE_ROW_NORM_H

#include "ops/op.h"

/* Of a weight and a bias: about the mean of a row. Of a weight alone: about 0. */
extern const ronde__form ronde__row_norm_form;

#endif

/* What layer norm and RMS norm share: rows of attr.length elements, each normalised by its own statistics. They are adjacent in
 * ROWS; or the channels of vectors in BLOCKS, as linear layers take and give them. */
#ifndef RONDE_ROW_NORM_H
#define RONDE_ROW_NORM_H

#include "ops/op.h"

/* Of an input of `shape`, whose rows have desc->attr.length elements: in[0] as it is offered, or ROWS; out[0]. */
void ronde__row_norm_layouts(ronde__op_desc *desc, const ronde__shape *shape);

/* Of a weight and a bias: about the mean of a row. Of a weight alone: about 0. */
extern const ronde__form ronde__row_norm_form;

#endif

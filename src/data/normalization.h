/* Mean and deviation of pixels, as users and files of weights write them. */
#ifndef RONDE_NORMALIZATION_H
#define RONDE_NORMALIZATION_H

#include "data/data.h"

enum {
  RONDE__NORMALIZATION_LIST = 16 * RONDE__NORMALIZED_MAX,   /* bytes of a list of values as text, */
  RONDE__NORMALIZATION_TEXT = 2 * RONDE__NORMALIZATION_LIST /* and of both */
};

/* "MEAN;STD", each one value or one a channel: "0.5;0.25", "0.5,0.4,0.5;0.2"; or "imagenet". false: it is neither. */
bool ronde__normalization_parse(const char *text, ronde__normalization *out);
/* The two lists by themselves, of as many values. */
bool ronde__normalization_parse_lists(const char *mean, const char *deviation, ronde__normalization *out);
/* Channels of an example [C][...]; the columns of a vector are its channels. */
static inline int64_t ronde__normalization_channels(const ronde__shape *shape) { return shape->dim[0]; }
/* (x - mean) / deviation of n examples of a shape; from and to may be the same. There must be channels. */
void ronde__normalization_apply(const ronde__normalization *by, const ronde__shape *shape, int64_t n, const float *from,
                                float *to);
/* Comma-separated, with as few digits as read back as the same values. */
void ronde__normalization_list(const float *values, int n, char *text, size_t bytes);
/* "MEAN;STD", or "off" where there are no channels. */
void ronde__normalization_text(const ronde__normalization *normalization, char text[RONDE__NORMALIZATION_TEXT]);

#endif

/* Mean and deviation of pixels, as users and files of weights write them. */
#ifndef RONDE_NORMALIZATION_H
#define RONDE_NORMALIZATION_H

#include "data/data.h"
#include "kernel/kernel.h"

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
/* Comma-separated, with as few digits as read back as the same values. */
void ronde__normalization_list(const float *values, int n, char *text, size_t bytes);
/* "MEAN;STD", or "off" where there are no channels. */
void ronde__normalization_text(const ronde__normalization *normalization, char text[RONDE__NORMALIZATION_TEXT]);

/* What makes inputs of what is stored, whoever reads it: item * factor + shift. */
typedef struct ronde__scaling {
  bool changes; /* else items are the inputs */
  int n;        /* 1: all channels have the same; else one a channel */
  float factor[RONDE__NORMALIZED_MAX], shift[RONDE__NORMALIZED_MAX];
} ronde__scaling;

/* unit: what is stored for a 1, 255 of pixels in bytes. Without channels nothing but the unit changes. */
ronde__scaling ronde__scaling_of(const ronde__normalization *by, float unit);
/* One example of `elems` items [C][...]; f32: from and to may be the same. */
void ronde__scaling_u8(const ronde__scaling *scaling, const ronde__kernels *kernels, int64_t elems, const uint8_t *from,
                       float *to);
void ronde__scaling_f32(const ronde__scaling *scaling, int64_t elems, const float *from, float *to);

#endif

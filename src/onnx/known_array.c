/* Arrays that follow from the file alone: made, walked through and spread. */
#include "onnx/known.h"

#include <math.h>
#include <string.h>

enum { MAX_ALL = 1 << 23 }; /* elements of a building */

bool ronde__onnx_is_alike(const known *array, double value) {
  for (int64_t i = 0; i < array->n; i++)
    if (array->values[i] != value) return false;
  return true;
}

/* NULL: it is too large here, or has a size below 0. */
known *ronde__known_make(ronde__onnx_import *im, int rank, const int64_t *dims, bool integers) {
  int64_t n = 1;
  if (rank > MAX_RANK) return NULL;
  for (int d = 0; d < rank; d++)
    if (dims[d] < 0 || dims[d] > MAX_ELEMS || (n *= dims[d]) > MAX_ELEMS) return NULL;
  if (im->n_known + n > MAX_ALL) return NULL;
  known *array = ronde__alloc(sizeof *array + (size_t)n * sizeof *array->values);
  if (!array) return NULL;
  *array = (known){.next = im->known, .integers = integers, .rank = rank, .n = n};
  if (rank) memcpy(array->dim, dims, (size_t)rank * sizeof *dims);
  im->known = array;
  im->n_known += n;
  return array;
}

known *ronde__onnx_make_known(ronde__onnx_import *im, int rank, const int64_t *dims) {
  known *array = ronde__known_make(im, rank, dims, false);
  for (int64_t i = 0; array && i < array->n; i++) array->values[i] = 0;
  return array;
}

double ronde__known_rounded(double value, bool integers) {
  if (!integers) return (double)(float)value;
  return isnan(value) ? 0 : fmax(-(double)RONDE__KNOWN_FAR, fmin((double)RONDE__KNOWN_FAR, value));
}

void ronde__onnx_release_known(ronde__onnx_import *im, const known *until) {
  for (known *next; im->known != until; im->known = next) {
    next = im->known->next;
    im->n_known -= im->known->n;
    ronde__free(im->known);
  }
}

void ronde__known_copy_steps(const known *from, int64_t first, const int64_t *step, known *to) {
  int64_t at[MAX_RANK] = {0}, place = first;
  for (int64_t i = 0; i < to->n; i++) {
    to->values[i] = from->values[place];
    for (int d = to->rank - 1; d >= 0; d--) {
      place += step[d];
      if (++at[d] < to->dim[d]) break;
      place -= step[d] * to->dim[d];
      at[d] = 0;
    }
  }
}

void ronde__known_steps_of(const known *array, int64_t step_out[MAX_RANK]) {
  ronde__onnx_row_major(array->rank, array->dim, step_out);
}

const known *ronde__known_spread(ronde__onnx_import *im, const known *array, int rank, const int64_t *dims) {
  int64_t own[MAX_RANK], step[MAX_RANK] = {0};
  int skip = rank - array->rank;
  if (skip < 0) return NULL;
  ronde__known_steps_of(array, own);
  for (int d = 0; d < array->rank; d++) {
    if (array->dim[d] != 1 && array->dim[d] != dims[d + skip]) return NULL;
    step[d + skip] = array->dim[d] == 1 ? 0 : own[d];
  }
  known *y = ronde__known_make(im, rank, dims, array->integers);
  if (y && array->n) ronde__known_copy_steps(array, 0, step, y);
  return y;
}

int64_t ronde__known_place(const known *array, const int64_t *step, const double *index, int64_t k) {
  int64_t place = 0;
  for (int64_t d = 0; d < k; d++) {
    double n = (double)array->dim[d], at = index[d] < 0 ? index[d] + n : index[d];
    if (!(at >= 0 && at < n)) return -1;
    place += (int64_t)at * step[d];
  }
  return place;
}

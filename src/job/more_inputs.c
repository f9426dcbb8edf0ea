/* Inputs beside the first one: as the data have them, and as text in a file of weights. */
#include "job/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ronde__more_inputs_of_data(const ronde_source *source, ronde__more_inputs *more_out) {
  *more_out = (ronde__more_inputs){.n = source->n_more};
  for (int i = 0; i < source->n_more; i++) {
    const ronde_source_input *from = &source->more[i];
    snprintf(more_out->at[i].name, sizeof more_out->at[i].name, "%s", from->name);
    more_out->at[i].shape.rank = from->rank;
    memcpy(more_out->at[i].shape.dim, from->dims, (size_t)from->rank * sizeof *from->dims);
    more_out->at[i].vocabulary = from->vocabulary;
  }
}

void ronde__more_inputs_text(const ronde__more_inputs *more, char *text, size_t bytes) {
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < more->n && used < bytes; i++) {
    char shape[96];
    ronde__shape_text(&more->at[i].shape, shape, sizeof shape);
    used += (size_t)snprintf(text + used, bytes - used, "%s%s:%s:%" PRId64, i ? "," : "", more->at[i].name, shape,
                             more->at[i].vocabulary);
  }
}

/* Dims such as 3x32x32, up to a colon; NULL: they are none. */
static const char *parse_dims(const char *at, ronde__shape *shape) {
  for (bool any = true; any; at += any) {
    char *end;
    long long dim = strtoll(at, &end, 10);
    if (end == at || dim < 1 || dim > INT32_MAX || shape->rank == RONDE_MAX_RANK) return NULL;
    shape->dim[shape->rank++] = dim;
    any = *(at = end) == 'x';
  }
  return *at == ':' ? at + 1 : NULL;
}

bool ronde__more_inputs_parse(const char *text, ronde__more_inputs *more_out) {
  ronde__more_inputs more = {0};
  for (const char *at = text; *at; more.n++) {
    char *end;
    size_t n = strcspn(at, ":");
    if (more.n == RONDE_MAX_INPUTS - 1 || n == 0 || n >= sizeof more.at[0].name || !at[n]) return false;
    memcpy(more.at[more.n].name, at, n);
    if (!(at = parse_dims(at + n + 1, &more.at[more.n].shape))) return false;
    more.at[more.n].vocabulary = strtoll(at, &end, 10);
    bool is_number = end > at && more.at[more.n].vocabulary >= 0 && more.at[more.n].vocabulary <= INT32_MAX;
    if (!is_number || (*end && *end != ',')) return false;
    at = *end ? end + 1 : end;
  }
  *more_out = more;
  return true;
}

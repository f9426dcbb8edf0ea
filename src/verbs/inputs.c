/* The inputs of a prediction. Of pictures a chunk is decoded at once, one a thread; of an array, or a
 * table in a csv file, the next examples are read. */
#include "verbs/inputs.h"

#include "data/columns.h"
#include "data/image.h"
#include "data/normalization.h"
#include "verbs/paths.h"

#include <stdlib.h>
#include <string.h>

/* A picture on its way into a chunk. */
typedef struct picture {
  const char *path;
  float *x; /* of one example, as stored; NULL: not read */
  int64_t sides[2];
  ronde_status status;
  char reason[RONDE__REASON_BYTES];
} picture;

struct ronde__inputs {
  ronde__inputs_options options;
  const ronde__kernels *kernels;
  ronde__paths paths;
  int64_t at;
  ronde__shape shape;       /* rank 0: not known yet */
  ronde__npy_inputs *array; /* the file at `at`; NULL: none is open */
  ronde__shape array_shape; /* as they lie in it */
  int64_t array_n, array_at;
  ronde__stream *stream;              /* of the csv file at `at`, */
  ronde__rows *rows;                  /* NULL: none is open */
  int64_t row;                        /* the next one */
  ronde__scaling of_bytes, of_floats; /* which make inputs of what is stored */
  float *x;                           /* [chunk][shape] */
  const char **file;
  int64_t *index;
  picture *pictures; /* [chunk] */
  int64_t n_skipped;
};

/* ---- the list of files ---- */

static bool is_array(const char *name) { return ronde__path_has_end(name, ".npy"); }
static bool is_table(const char *name) {
  return ronde__path_has_end(name, ".csv") || ronde__path_has_end(name, ".csv.gz");
}
static bool is_picture(const char *name) { return !is_array(name) && !is_table(name); }

/* Of a file in a folder. */
static bool is_wanted(const void *user, const char *name) {
  const ronde__inputs *in = user;
  return is_array(name) || ronde__image_name(name) || (in->options.columns && is_table(name));
}

static ronde_status find_files(ronde__inputs *in, const char *spec) {
  const char *ends = in->options.columns ? ".png, .jpg, .jpeg, .csv or .npy" : ".png, .jpg, .jpeg or .npy";
  RONDE_TRY(ronde__paths_find(spec, &(ronde__paths_wanted){is_wanted, in, ends}, &in->paths));
  return in->paths.n ? RONDE_OK
                     : ronde__fail(RONDE_E_USAGE, "an image, npy or csv file to look at is needed: --input FILE");
}

ronde_status ronde__inputs_open(const ronde__inputs_options *options, ronde__inputs **inputs_out) {
  ronde__inputs *in;
  RONDE__ALLOC(in, sizeof *in, "prediction");
  in->options = *options;
  ronde__inputs_normalize(in, &(ronde__normalization){0});
  ronde_status status = ronde__kernels_get(&in->kernels);
  if (status == RONDE_OK) status = find_files(in, options->spec);
  if (status != RONDE_OK) ronde__inputs_close(in);
  else *inputs_out = in;
  return status;
}

void ronde__inputs_normalize(ronde__inputs *in, const ronde__normalization *by) {
  in->of_bytes = ronde__scaling_of(by, 255);
  in->of_floats = ronde__scaling_of(by, 1);
}

static void release_pictures(ronde__inputs *in) {
  for (int64_t i = 0; in->pictures && i < in->options.chunk; i++) {
    ronde__free(in->pictures[i].x);
    in->pictures[i].x = NULL;
  }
}

static void close_table(ronde__inputs *in) {
  ronde__rows_close(in->rows);
  ronde__stream_close(in->stream);
  in->rows = NULL;
  in->stream = NULL;
}

void ronde__inputs_close(ronde__inputs *in) {
  if (!in) return;
  if (in->n_skipped)
    ronde__log(RONDE_LOG_WARNING, "%lld images that cannot be read are left out", (long long)in->n_skipped);
  release_pictures(in);
  close_table(in);
  ronde__paths_release(&in->paths);
  ronde__npy_inputs_close(in->array);
  ronde__free(in->x);
  ronde__free(in->file);
  ronde__free(in->index);
  ronde__free(in->pictures);
  ronde__free(in);
}

static bool have_any(const ronde__inputs *in, bool (*are)(const char *name)) {
  for (int64_t i = 0; i < in->paths.n; i++)
    if (are(in->paths.at[i])) return true;
  return false;
}

bool ronde__inputs_have_arrays(const ronde__inputs *in) { return have_any(in, is_array); }
bool ronde__inputs_have_pictures(const ronde__inputs *in) { return have_any(in, is_picture); }

/* ---- reading ---- */

/* Brings planes to the wanted size; x is replaced. */
static ronde_status resize_planes(const ronde__inputs *in, int64_t n_planes, int64_t sides[2], float **x) {
  if (!in->options.resize[0]) return RONDE_OK;
  RONDE_TRY(ronde__planes_resize(n_planes, sides, in->options.resize, x));
  memcpy(sides, in->options.resize, sizeof in->options.resize);
  return RONDE_OK;
}

static ronde_status decode(const ronde__inputs *in, picture *p) {
  uint8_t *data, *planes;
  size_t bytes;
  ronde__image image;
  int64_t channels = in->options.channels;
  RONDE_TRY(ronde__image_load(p->path, &data, &bytes));
  ronde_status status = ronde__image_planes(data, bytes, (int)channels, &image, &planes, p->reason);
  ronde__free(data);
  RONDE_TRY(status);
  int64_t elems = channels * image.height * image.width;
  p->sides[0] = image.height;
  p->sides[1] = image.width;
  p->x = ronde__alloc((size_t)elems * sizeof *p->x);
  if (p->x) in->kernels->from_u8(planes, 1, 0, p->x, elems);
  ronde__free(planes);
  if (!p->x) return ronde__image_fail(RONDE_E_MEMORY, p->reason, "no memory for the image");
  return resize_planes(in, channels, p->sides, &p->x);
}

typedef struct decoding {
  const ronde__inputs *in;
  int64_t n;
} decoding;

static void decode_share(void *arg, int thread, int n_threads) {
  const decoding *d = arg;
  for (int64_t i = thread; i < d->n; i += n_threads) d->in->pictures[i].status = decode(d->in, &d->in->pictures[i]);
}

/* Whether the picture is left out; else the error, said. */
static ronde_status refuse(ronde__inputs *in, const picture *p, bool *skip_out) {
  *skip_out = in->options.skip_bad && p->status == RONDE_E_INPUT && p->reason[0];
  in->n_skipped += *skip_out;
  if (*skip_out || p->status == RONDE_OK) return RONDE_OK;
  return p->reason[0] ? ronde__fail(p->status, "%s: %s", p->path, p->reason) : p->status;
}

static ronde_status check_shape(ronde__inputs *in, const char *path, const ronde__shape *shape) {
  if (in->shape.rank == 0) {
    in->shape = *shape;
    size_t chunk = (size_t)in->options.chunk;
    RONDE__ALLOC(in->x, chunk * (size_t)ronde__shape_elems(shape) * sizeof *in->x, "prediction");
    return RONDE_OK;
  }
  if (ronde__shape_equal(&in->shape, shape)) return RONDE_OK;
  char own[64], first[64];
  ronde__shape_text(shape, own, sizeof own);
  ronde__shape_text(&in->shape, first, sizeof first);
  return ronde__fail(RONDE_E_INPUT, "%s: its shape is %s, but that of %s is %s: give --resize HxW", path, own,
                     in->paths.at[0], first);
}

/* Opens the array at hand. */
static ronde_status open_array(ronde__inputs *in) {
  const char *path = in->paths.at[in->at];
  RONDE_TRY(ronde__npy_inputs_open(path, in->options.layout, &in->array_n, &in->array_shape, &in->array));
  in->array_at = 0;
  ronde__shape shape = in->array_shape;
  if (shape.rank == 3 && in->options.resize[0]) memcpy(shape.dim + 1, in->options.resize, sizeof in->options.resize);
  return check_shape(in, path, &shape);
}

/* Opens the table at hand; its target may be missing. */
static ronde_status open_table(ronde__inputs *in) {
  const char *path = in->paths.at[in->at];
  const ronde__columns *columns = in->options.columns;
  if (!columns)
    return ronde__fail(
        RONDE_E_INPUT,
        "%s: the weights do not name the columns of their inputs, as those of csv:FILE do: give npy (N, F)", path);
  RONDE_TRY(ronde__stream_open(path, &in->stream));
  RONDE_TRY(ronde__rows_open(columns, in->stream, false, true, &in->rows));
  in->row = 0;
  return check_shape(in, path, &(ronde__shape){1, {columns->width}});
}

/* Each of these adds to a chunk that has *n examples, up to its end or that of what is open. */

/* Pictures from `at` on, up to the next array or table. */
static ronde_status read_pictures(ronde__inputs *in, ronde__pool *pool, int64_t *n) {
  decoding d = {in, 0};
  while (*n + d.n < in->options.chunk && in->at < in->paths.n && is_picture(in->paths.at[in->at]))
    in->pictures[d.n++] = (picture){.path = in->paths.at[in->at++]};
  ronde__pool_run(pool, decode_share, &d);
  for (int64_t i = 0; i < d.n; i++) {
    const picture *p = &in->pictures[i];
    bool skip;
    RONDE_TRY(refuse(in, p, &skip));
    if (skip) continue;
    ronde__shape shape = {3, {in->options.channels, p->sides[0], p->sides[1]}};
    RONDE_TRY(check_shape(in, p->path, &shape));
    int64_t elems = ronde__shape_elems(&shape);
    ronde__scaling_f32(&in->of_bytes, elems, p->x, in->x + *n * elems);
    in->file[*n] = p->path;
    in->index[(*n)++] = 0;
  }
  release_pictures(in);
  return RONDE_OK;
}

static const ronde__scaling *scaling_of_array(const ronde__inputs *in) {
  return ronde__npy_inputs_unit(in->array) > 1 ? &in->of_bytes : &in->of_floats;
}

/* The next n examples of the array at hand: resized as they are stored, then scaled. */
static ronde_status take_resized(ronde__inputs *in, int64_t n, float *x) {
  static const ronde__scaling as_stored = {.n = 1, .factor[0] = 1};
  int64_t elems = ronde__shape_elems(&in->shape), sides[2] = {in->array_shape.dim[1], in->array_shape.dim[2]};
  float *own;
  RONDE__ALLOC(own, (size_t)(n * ronde__shape_elems(&in->array_shape)) * sizeof *own, in->paths.at[in->at]);
  ronde_status status = ronde__npy_inputs_next(in->array, n, &as_stored, own);
  if (status == RONDE_OK) status = resize_planes(in, n * in->shape.dim[0], sides, &own);
  for (int64_t i = 0; i < n && status == RONDE_OK; i++)
    ronde__scaling_f32(scaling_of_array(in), elems, own + i * elems, x + i * elems);
  ronde__free(own);
  return status;
}

static ronde_status read_array(ronde__inputs *in, int64_t *n) {
  int64_t taken = ronde__min(in->options.chunk - *n, in->array_n - in->array_at);
  float *x = in->x + *n * ronde__shape_elems(&in->shape);
  bool fits = ronde__shape_equal(&in->array_shape, &in->shape);
  RONDE_TRY(fits ? ronde__npy_inputs_next(in->array, taken, scaling_of_array(in), x) : take_resized(in, taken, x));
  for (int64_t i = 0; i < taken; i++) {
    in->file[*n + i] = in->paths.at[in->at];
    in->index[*n + i] = in->array_at + i;
  }
  in->array_at += taken;
  if (in->array_at == in->array_n) {
    ronde__npy_inputs_close(in->array);
    in->array = NULL;
    in->at++;
  }
  *n += taken;
  return RONDE_OK;
}

static ronde_status read_table(ronde__inputs *in, int64_t *n) {
  int64_t elems = ronde__shape_elems(&in->shape);
  bool any = true;
  while (any && *n < in->options.chunk) {
    RONDE_TRY(ronde__rows_next(in->rows, in->x + *n * elems, NULL, NULL, &any));
    if (!any) break;
    if (in->of_floats.changes) ronde__scaling_f32(&in->of_floats, elems, in->x + *n * elems, in->x + *n * elems);
    in->file[*n] = in->paths.at[in->at];
    in->index[(*n)++] = in->row++;
  }
  if (!any && in->row == 0)
    return ronde__fail(RONDE_E_INPUT, "%s: there are no rows under the first line", in->paths.at[in->at]);
  if (!any) {
    close_table(in);
    in->at++;
  }
  return RONDE_OK;
}

static ronde_status inputs_make_room(ronde__inputs *in) {
  size_t chunk = (size_t)in->options.chunk;
  if (in->pictures) return RONDE_OK;
  RONDE__ALLOC(in->file, chunk * sizeof *in->file, "prediction");
  RONDE__ALLOC(in->index, chunk * sizeof *in->index, "prediction");
  RONDE__ALLOC(in->pictures, chunk * sizeof *in->pictures, "prediction");
  return RONDE_OK;
}

ronde_status ronde__inputs_shape(ronde__inputs *in, ronde__shape *shape_out) {
  RONDE_TRY(inputs_make_room(in));
  for (int64_t i = 0; i < in->paths.n && in->shape.rank == 0; i++) {
    if (!is_picture(in->paths.at[i])) {
      in->at = i;
      RONDE_TRY(is_array(in->paths.at[i]) ? open_array(in) : open_table(in));
      break;
    }
    picture p = {.path = in->paths.at[i]};
    bool skip;
    p.status = decode(in, &p);
    ronde__shape shape = {3, {in->options.channels, p.sides[0], p.sides[1]}};
    ronde__free(p.x);
    RONDE_TRY(refuse(in, &p, &skip));
    if (!skip) RONDE_TRY(check_shape(in, p.path, &shape));
    in->at = i + skip;
  }
  if (in->shape.rank == 0) return ronde__fail(RONDE_E_INPUT, "%s: none of the images can be read", in->paths.at[0]);
  *shape_out = in->shape;
  return RONDE_OK;
}

ronde_status ronde__inputs_next(ronde__inputs *in, ronde__pool *pool, ronde__inputs_chunk *chunk_out) {
  int64_t n = 0;
  RONDE_TRY(inputs_make_room(in));
  while (n < in->options.chunk && in->at < in->paths.n) {
    if (is_picture(in->paths.at[in->at])) {
      RONDE_TRY(read_pictures(in, pool, &n));
    } else if (is_array(in->paths.at[in->at])) {
      if (!in->array) RONDE_TRY(open_array(in));
      RONDE_TRY(read_array(in, &n));
    } else {
      if (!in->rows) RONDE_TRY(open_table(in));
      RONDE_TRY(read_table(in, &n));
    }
  }
  *chunk_out = (ronde__inputs_chunk){n, in->file, in->index, in->x};
  return RONDE_OK;
}

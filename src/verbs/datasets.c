/* The public calls about data sets: list them, describe one, download it, write it as npy. */
#include "data/catalog.h"
#include "data/columns.h"
#include "data/data.h"
#include "io/file.h"
#include "config/config.h"
#include "data/remote.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- list ----------------------------------------------------------------------------------------------------- */

ronde_status ronde_data_list(char **json_out) {
  json_t *sets = json_array();
  const ronde__remote *r;
  for (int i = 0; (r = ronde__remote_at(i)); ++i) {
    char *place = ronde__set_folder(r->name);
    int64_t bytes = 0;
    for (int f = 0; f < RONDE__REMOTE_FILES && r->files[f].name; ++f) bytes += r->files[f].bytes;
    json_array_append_new(
        sets, json_pack("{s:s, s:s, s:s, s:I, s:o}", "name", r->name, "about", r->about, "url", r->url,
                        "download_bytes", (json_int_t)bytes, "folder", place ? ronde__json_text(place) : json_null()));
    free(place);
  }
  return ronde__json_give(json_pack("{s:o}", "sets", sets), "result", json_out);
}

/* ---- info ----------------------------------------------------------------------------------------------------- */

/* Examples as they are stored: not normalised, and resized only where they are images of a folder. */
static ronde_status open_by_name(const ronde_config *config, bool prefers_val, ronde__data **data_out) {
  const ronde__options *o = ronde__config_options(config);
  if (config->verb != RONDE__VERB_DATA) return ronde__fail(RONDE_E_USAGE, "a configuration of \"data\" is needed");
  if (!o->data) return ronde__fail(RONDE_E_USAGE, "a data set is needed: NAME[:DIR]");
  ronde__columns_options columns = {.target = o->target, .ignored = o->ignore_columns};
  ronde__data_options options = {.spec = o->data,
                                 .cache = true,
                                 .window = o->window,
                                 .tokenizer = o->tokenizer,
                                 .seed = 1,
                                 .prefers_val = prefers_val,
                                 .columns = &columns,
                                 .skip_bad_images = o->skip_bad_images,
                                 .layout = (ronde__image_layout)o->layout};
  RONDE_TRY(ronde__config_resize(o, options.resize));
  bool are_images = ronde__data_is_of_images(o->data);
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_ARRAYS, ronde__data_is_of_arrays(o->data)));
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_COLUMNS, ronde__data_is_of_columns(o->data)));
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_TEXT, ronde__data_has_window(o->data)));
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_TOKENIZED, ronde__data_is_of_text(o->data)));
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_LEARNING, false));
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_STORED_IMAGES, are_images));
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_IMAGE_FILES, are_images));
  return ronde__data_open(&options, data_out);
}

/* csv: what the columns are, as a file of weights has it; else NULL. */
static json_t *describe_columns(const ronde__data *data) {
  char *text = ronde__data_columns(data);
  json_t *json = text ? json_loads(text, 0, NULL) : NULL;
  free(text);
  return json;
}

static const char *type_of(ronde__stored stored) {
  return !stored.f32 ? "uint8" : stored.are_tokens ? "int32" : "float32";
}

static json_t *describe_set(const ronde__data *data) {
  const ronde_source *source = &data->source;
  json_t *names = json_array();
  for (int64_t k = 0; ronde__data_class_name(data, k); ++k)
    json_array_append_new(names, ronde__json_text(ronde__data_class_name(data, k)));
  bool named = json_array_size(names) > 0;
  json_t *json =
      json_pack("{s:o, s:I, s:I, s:o, s:I, s:s, s:s, s:I}", "name", ronde__json_text(source->name), "train_examples",
                (json_int_t)source->n_examples[RONDE_SPLIT_TRAIN], "test_examples",
                (json_int_t)source->n_examples[RONDE_SPLIT_TEST], "shape", ronde__json_dims(source->dims, source->rank),
                "classes", (json_int_t)source->classes, "type", type_of(ronde__data_stored(data, RONDE_SPLIT_TRAIN)),
                "sha256", data->sha256, "skipped_images", (json_int_t)data->n_skipped);
  if (json && source->target_elems) json_object_set_new(json, "target_values", json_integer(source->target_elems));
  if (json && source->label_elems) json_object_set_new(json, "labels", json_integer(source->label_elems));
  if (json && source->vocabulary) json_object_set_new(json, "vocabulary", json_integer(source->vocabulary));
  for (int i = 0; json && i < source->n_more; ++i)
    json_object_set_new(json, source->more[i].name, ronde__json_dims(source->more[i].dims, source->more[i].rank));
  if (json && data->test_is_val) json_object_set_new(json, "tested_on", json_string("validation"));
  if (json && named) json_object_set(json, "class_names", names);
  json_t *columns = describe_columns(data);
  if (json && columns) json_object_set(json, "columns", columns);
  json_decref(columns);
  json_decref(names);
  return json;
}

/* How many examples are in a folder's val/, which its test/ hides from this set. */
static ronde_status count_other_val(const ronde_config *config, json_t *json) {
  ronde__data *data;
  RONDE_TRY(open_by_name(config, true, &data));
  json_object_set_new(json, "validation_examples", json_integer(data->source.n_examples[RONDE_SPLIT_TEST]));
  ronde__data_close(data);
  return RONDE_OK;
}

ronde_status ronde_data_info(const ronde_config *config, char **json_out) {
  ronde__data *data;
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_WRITING, false));
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_DOWNLOAD, false));
  RONDE_TRY(open_by_name(config, false, &data));
  json_t *json = describe_set(data);
  ronde_status status = json && data->has_other_val ? count_other_val(config, json) : RONDE_OK;
  ronde__data_close(data);
  if (status == RONDE_OK) return ronde__json_give(json, "result", json_out);
  json_decref(json);
  return status;
}

/* ---- get ------------------------------------------------------------------------------------------------------ */

static ronde_status find_remote(const char *name, const ronde__remote **remote_out) {
  char known[256] = "";
  const ronde__remote *r;
  for (int i = 0; (r = ronde__remote_at(i)); ++i) {
    if (!strcmp(r->name, name)) {
      *remote_out = r;
      return RONDE_OK;
    }
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", r->name);
  }
  return ronde__fail(RONDE_E_USAGE, "data set %s cannot be downloaded; there are %s", RONDE__SHOWN(name), known);
}

ronde_status ronde_data_get(const ronde_config *config, const ronde_data_hooks *hooks, char **json_out) {
  const ronde__options *o = ronde__config_options(config);
  const ronde__remote *remote;
  if (config->verb != RONDE__VERB_DATA) return ronde__fail(RONDE_E_USAGE, "a configuration of \"data\" is needed");
  if (!o->data) return ronde__fail(RONDE_E_USAGE, "a data set is needed: NAME");
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_DECODING, false));
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_LEARNING, false));
  RONDE_TRY(find_remote(o->data, &remote));
  char *dir = o->output ? ronde__strdup(o->output) : ronde__set_home(remote->name);
  if (!dir) return ronde__fail(RONDE_E_USAGE, "neither HOME nor RONDE_DATA is set: give --output DIR");
  json_t *files = json_array();
  ronde_status status = ronde__remote_get(remote, o->from, dir, hooks, files);
  json_t *json = json_pack("{s:s, s:o, s:o}", "name", remote->name, "folder", ronde__json_text(dir), "files", files);
  free(dir);
  if (status == RONDE_OK) return ronde__json_give(json, "result", json_out);
  json_decref(json);
  return status;
}

/* ---- convert -------------------------------------------------------------------------------------------------- */

/* Version 1.0 of the format, its header padded to 64 bytes. */
static ronde_status write_npy(const char *dir, const char *name, const char *descr, const char *shape, const void *data,
                              size_t bytes) {
  char dict[160], header[256];
  int length = snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
  int total = (int)ronde__round_up(10 + length + 1, 64);
  memcpy(header, "\x93NUMPY\1\0", 8);
  header[8] = (char)((total - 10) & 0xff);
  header[9] = (char)((total - 10) >> 8);
  snprintf(header + 10, sizeof header - 10, "%-*s\n", total - 11, dict);
  char *path = ronde__format("%s/%s", dir, name);
  if (!path) return ronde__fail(RONDE_E_MEMORY, "%s: no memory", dir);
  ronde__file_out out;
  ronde_status status = ronde__file_begin(path, &out);
  if (status == RONDE_OK) {
    status = ronde__file_append(&out, header, (size_t)total);
    if (status == RONDE_OK) status = ronde__file_append(&out, data, bytes);
    if (status == RONDE_OK) status = ronde__file_commit(&out);
    else ronde__file_abandon(&out);
  }
  free(path);
  return status;
}

/* Tokens that are stored as bytes become int32: an array of bytes would be read as values. */
static ronde_status write_inputs(const char *dir, const char *name, const char *shape, const ronde__stored *stored,
                                 size_t n) {
  const uint8_t *bytes = stored->x;
  int32_t *tokens;
  if (stored->f32) return write_npy(dir, name, stored->are_tokens ? "<i4" : "<f4", shape, stored->x, n * sizeof(float));
  if (!stored->are_tokens) return write_npy(dir, name, "|u1", shape, stored->x, n);
  RONDE__ALLOC(tokens, n * sizeof *tokens, name);
  for (size_t i = 0; i < n; ++i) tokens[i] = bytes[i];
  ronde_status status = write_npy(dir, name, "<i4", shape, tokens, n * sizeof *tokens);
  ronde__free(tokens);
  return status;
}

static ronde_status write_split(const ronde__data *data, ronde_split split, const char *dir, json_t *files) {
  static const char *const names[2][2] = {{"train_x.npy", "train_y.npy"}, {"test_x.npy", "test_y.npy"}};
  const ronde_source *s = &data->source;
  ronde__stored stored = ronde__data_stored(data, split);
  long long n = (long long)s->n_examples[split];
  if (n == 0 || !stored.x) return RONDE_OK;
  char shape[96];
  size_t elems = (size_t)n;
  int used = snprintf(shape, sizeof shape, "%lld", n);
  for (int d = 0; d < s->rank; ++d) {
    used += snprintf(shape + used, sizeof shape - (size_t)used, ", %lld", (long long)s->dims[d]);
    elems *= (size_t)s->dims[d];
  }
  RONDE_TRY(write_inputs(dir, names[split][0], shape, &stored, elems));
  size_t n_targets = (size_t)(n * s->target_elems);
  if (stored.labels && s->label_elems) snprintf(shape, sizeof shape, "%lld, %lld", n, (long long)s->label_elems);
  else if (stored.labels) snprintf(shape, sizeof shape, "%lld,", n);
  else snprintf(shape, sizeof shape, "%lld, %lld", n, (long long)s->target_elems);
  if (stored.labels)
    RONDE_TRY(write_npy(dir, names[split][1], "<i8", shape, stored.labels,
                        (size_t)(n * ronde__source_labels(s)) * sizeof(int64_t)));
  else RONDE_TRY(write_npy(dir, names[split][1], "<f4", shape, stored.targets, n_targets * sizeof(float)));
  for (int i = 0; i < 2; ++i) json_array_append_new(files, json_string(names[split][i]));
  return RONDE_OK;
}

ronde_status ronde_data_convert(const ronde_config *config, char **json_out) {
  const ronde__options *o = ronde__config_options(config);
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_DOWNLOAD, false));
  if (!o->output) return ronde__fail(RONDE_E_USAGE, "a folder to write to is needed: --output DIR");
  ronde__data *data;
  RONDE_TRY(open_by_name(config, false, &data));
  if (data->source.n_more) {
    ronde_status status = ronde__fail(RONDE_E_USAGE, "%s: npy files have one input, and these data have %d",
                                      data->source.name, 1 + data->source.n_more);
    ronde__data_close(data);
    return status;
  }
  json_t *files = json_array();
  ronde_status status = ronde__folder_make(o->output);
  for (int split = 0; split < 2 && status == RONDE_OK; ++split) status = write_split(data, split, o->output, files);
  json_t *json = describe_set(data);
  if (json) {
    json_object_set_new(json, "folder", ronde__json_text(o->output));
    json_object_set(json, "files", files);
  }
  json_decref(files);
  ronde__data_close(data);
  if (status == RONDE_OK) return ronde__json_give(json, "result", json_out);
  json_decref(json);
  return status;
}

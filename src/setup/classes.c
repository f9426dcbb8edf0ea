/* What classes mean: the names that a file of weights gives them, and the data's labels in that order. Names decide
 * wherever both sides have some; only where one side has none are classes compared by their index, and that is said. */
#include "setup/setup.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- of a file ---- */

static ronde_status copy_names(const json_t *list, const char *path, ronde__class_names *names) {
  size_t n = json_array_size(list);
  RONDE__ALLOC(names->name, n * sizeof *names->name, path);
  for (; names->n < (int64_t)n; names->n++) {
    const char *name = json_string_value(json_array_get(list, (size_t)names->n));
    if (!name)
      return ronde__fail(RONDE_E_INPUT, "%s: metadata %s is not a list of strings", path, RONDE__META_CLASS_NAMES);
    names->name[names->n] = ronde__strdup(name);
    if (!names->name[names->n]) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for the names of its classes", path);
  }
  return RONDE_OK;
}

ronde_status ronde__class_names_read(const ronde__safetensors *file, const char *path, ronde__class_names *names_out) {
  const char *text = ronde__safetensors_meta(file, RONDE__META_CLASS_NAMES);
  ronde__class_names names = {0};
  if (!text) return *names_out = names, RONDE_OK;
  json_t *list = json_loads(text, 0, NULL);
  ronde_status status = json_is_array(list) ? copy_names(list, path, &names)
                                            : ronde__fail(RONDE_E_INPUT, "%s: metadata %s is not a list of strings",
                                                          path, RONDE__META_CLASS_NAMES);
  json_decref(list);
  if (status == RONDE_OK) *names_out = names;
  else ronde__class_names_release(&names);
  return status;
}

void ronde__class_names_release(ronde__class_names *names) {
  for (int64_t i = 0; i < names->n; i++) free(names->name[i]);
  ronde__free(names->name);
  *names = (ronde__class_names){0};
}

/* The file's number of classes; 0: it says nothing of it. More may be counted than named, but not fewer. */
static ronde_status count_classes(const ronde__safetensors *file, const char *path, const ronde__class_names *names,
                                  int64_t *n_out) {
  const char *text = ronde__safetensors_meta(file, "classes");
  int64_t n = text ? strtoll(text, NULL, 10) : names->n;
  if (n < names->n)
    return ronde__fail(RONDE_E_INPUT, "%s: it names %" PRId64 " classes, but says that it has %" PRId64, path, names->n,
                       n);
  *n_out = n;
  return RONDE_OK;
}

/* ---- the data's beside them ---- */

/* What is told of a list of names: the first ones, and how many more there are. */
typedef struct told {
  char text[400];
  int64_t n, n_left_out;
} told;

enum { ROOM_FOR_REST = 40 };

static void told_add(told *t, const char *name) {
  size_t used = strlen(t->text);
  if (t->n_left_out || used + strlen(name) + 3 + ROOM_FOR_REST > sizeof t->text) t->n_left_out++;
  else snprintf(t->text + used, sizeof t->text - used, "%s%s", used ? ", " : "", name);
  t->n++;
}

static const char *tell_rest(told *t) {
  size_t used = strlen(t->text);
  if (t->n_left_out)
    snprintf(t->text + used, sizeof t->text - used, "%s%" PRId64 " more", used ? ", ... and " : "", t->n_left_out);
  return t->text;
}

/* A name of the file, and its label. */
typedef struct named {
  const char *name;
  int64_t label;
} named;

static int class_by_name(const void *a, const void *b) {
  return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

/* The names of the file in their order, to look one up; to be freed. */
static ronde_status sort_names(const ronde__class_names *names, const char *path, named **sorted_out) {
  named *sorted;
  RONDE__ALLOC(sorted, (size_t)names->n * sizeof *sorted, path);
  for (int64_t i = 0; i < names->n; i++) sorted[i] = (named){names->name[i], i};
  qsort(sorted, (size_t)names->n, sizeof *sorted, class_by_name);
  *sorted_out = sorted;
  return RONDE_OK;
}

/* The label of one of the data's names in the file; -1: it has none of this name, -2: several. */
static int64_t find_label(const named *sorted, int64_t n, const char *data_name) {
  json_t *text = ronde__json_text(data_name); /* as it would stand in a file */
  named wanted = {.name = text ? json_string_value(text) : data_name};
  const named *found = bsearch(&wanted, sorted, (size_t)n, sizeof *sorted, class_by_name);
  bool several = found && ((found > sorted && !class_by_name(found - 1, found)) ||
                           (found + 1 < sorted + n && !class_by_name(found + 1, found)));
  json_decref(text);
  return several ? -2 : found ? found->label : -1;
}

/* label_of [n_own]: the file's label of each class of the data. */
static ronde_status match(const ronde__job *job, const char *path, int64_t n_own, int64_t *label_of, told *unknown) {
  named *sorted = NULL;
  RONDE_TRY(sort_names(&job->class_names, path, &sorted));
  ronde_status status = RONDE_OK;
  for (int64_t k = 0; k < n_own && status == RONDE_OK; k++) {
    const char *name = ronde__data_class_name(job->data, k);
    label_of[k] = find_label(sorted, job->class_names.n, name);
    if (label_of[k] == -1) told_add(unknown, name);
    if (label_of[k] == -2)
      status = ronde__fail(RONDE_E_INPUT,
                           "%s: two of its classes are called %s, so the data's class of this name has no unique match",
                           path, name);
  }
  ronde__free(sorted);
  return status;
}

/* What to do about classes that the file does not know. */
static void find_remedy(const ronde__job *job, int64_t n_own, char *text, size_t bytes) {
  if (job->resume) snprintf(text, bytes, "a resumed run keeps the classes it started with");
  else if (job->config->verb == RONDE__VERB_TRAIN)
    snprintf(text, bytes, "--classes %" PRId64 " starts a new output layer", n_own);
  else snprintf(text, bytes, "rename the data's classes to match, or leave out the unknown ones");
}

static ronde_status refuse_unknown(const ronde__job *job, const char *path, int64_t n_own, told *unknown) {
  told known = {.n = 0};
  char remedy[96];
  for (int64_t i = 0; i < job->class_names.n; i++) told_add(&known, job->class_names.name[i]);
  find_remedy(job, n_own, remedy, sizeof remedy);
  return ronde__fail(RONDE_E_INPUT, "%s: %s does not know the class%s %s (it knows %s): %s", ronde__job_data_name(job),
                     path, unknown->n > 1 ? "es" : "", tell_rest(unknown), tell_rest(&known), remedy);
}

static bool in_place(const int64_t *label_of, int64_t n) {
  for (int64_t k = 0; k < n; k++)
    if (label_of[k] != k) return false;
  return true;
}

/* Of labels that stay as they are. */
static ronde_status check_number(const ronde__job *job, int64_t n_own, int64_t n_file, const char *path) {
  int64_t n = job->options->classes;
  bool given = ronde__config_is_set(job->config, "classes");
  if (n_own > n && n > 0 && given)
    return ronde__fail(RONDE_E_INPUT, "--classes %" PRId64 " is too few: %s has %" PRId64 " classes", n,
                       ronde__job_data_name(job), n_own);
  if (given || job->config->verb != RONDE__VERB_EVAL || n_file == 0 || n_own == n_file) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT,
                     "%s has %" PRId64 " classes, but %s has %" PRId64
                     " and does not name them; if the data's classes are the first of these, give --classes %" PRId64,
                     ronde__job_data_name(job), n_own, path, n_file, n_file);
}

/* Both have names. new_head: the user asks for an output layer of so many classes. */
static ronde_status take_by_name(ronde__job *job, const char *path, int64_t n_own, int64_t n_file, bool new_head) {
  int64_t *label_of;
  told unknown = {.n = 0};
  RONDE__ALLOC(label_of, (size_t)n_own * sizeof *label_of, path);
  ronde_status status = match(job, path, n_own, label_of, &unknown);
  if (status == RONDE_OK && unknown.n == 0) {
    if (!in_place(label_of, n_own) || n_own != job->class_names.n)
      ronde__log(RONDE_LOG_INFO, "the data's %" PRId64 " classes are matched by name with the %" PRId64 " of %s", n_own,
                 job->class_names.n, path);
    status = ronde__data_relabel(job->data, label_of, (const char *const *)job->class_names.name, job->class_names.n,
                                 job->options->classes ? job->options->classes : n_file);
  } else if (status == RONDE_OK) {
    job->other_classes = new_head;
    status = new_head ? check_number(job, n_own, n_file, path) : refuse_unknown(job, path, n_own, &unknown);
  }
  ronde__free(label_of);
  return status;
}

ronde_status ronde__set_up_classes(ronde__job *job) {
  const ronde__safetensors *file = job->weights;
  const char *path = job->weights_path;
  int64_t n_own = ronde__data_class_names(job->data), n_file = 0;
  if (!file) return n_own ? check_number(job, n_own, 0, NULL) : RONDE_OK;
  RONDE_TRY(ronde__class_names_read(file, path, &job->class_names));
  RONDE_TRY(count_classes(file, path, &job->class_names, &n_file));
  bool asked = job->config->verb == RONDE__VERB_TRAIN && !job->resume && ronde__config_is_set(job->config, "classes");
  bool keeps_head = !asked || n_file == 0 || job->options->classes == n_file;
  if (keeps_head && n_own && job->class_names.n) RONDE_TRY(take_by_name(job, path, n_own, n_file, asked));
  else if (n_own) RONDE_TRY(check_number(job, n_own, n_file, path));
  job->by_index = (n_own > 0) != (job->class_names.n > 0) && job->data->source.classes > 0;
  return RONDE_OK;
}

void ronde__tell_classes(const ronde__job *job) {
  if (!job->by_index || job->new_head) return;
  const char *data = ronde__job_data_name(job);
  bool named = job->class_names.n > 0;
  ronde__log(RONDE_LOG_INFO, "classes are compared by their index: %s has names for them, %s has none",
             named ? job->weights_path : data, named ? data : job->weights_path);
}

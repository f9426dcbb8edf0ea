/* A set of image files: a folder a class, the classes numbered by their names in bytewise order. DIR/train and DIR/test
 * (or DIR/val) hold the classes of each split, or DIR/test alone; without these folders the classes in DIR are all for
 * training. Images are decoded to u8, in colour if one of them has colours, all of one size. */
#include "data/image.h"
#include "data/set.h"
#include "data/transform.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAMED_MAX 10 /* images that are skipped and named one by one */

/* ---- the tree ---------------------------------------------------------------------------------------------------- */

typedef enum entry_kind { KIND_FOLDER, KIND_FILE } entry_kind;

static bool entry_is(const char *path, entry_kind kind) {
  struct stat st;
  if (stat(path, &st)) return false;
  return kind == KIND_FOLDER ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode);
}

static int folder_by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

ronde_status ronde__files_add(ronde__files *files, char *path, int64_t label) {
  if (path && (files->n & (files->n - 1)) == 0) { /* full: at 0 and every power of two */
    size_t room = files->n ? 2 * (size_t)files->n : 1;
    char **paths = realloc(files->path, room * sizeof *paths);
    if (paths) files->path = paths;
    int64_t *labels = realloc(files->label, room * sizeof *labels);
    if (labels) files->label = labels;
    if (!paths || !labels) {
      free(path);
      path = NULL;
    }
  }
  if (!path) return ronde__fail(RONDE_E_MEMORY, "data set: no memory for the names of its files");
  files->path[files->n] = path;
  files->label[files->n++] = label;
  return RONDE_OK;
}

void ronde__files_release(ronde__files *files) {
  for (int64_t i = 0; i < files->n; ++i) free(files->path[i]);
  free(files->path);
  free(files->label);
  *files = (ronde__files){.n = 0};
}

/* The paths of what is in a folder of the wanted kind, sorted; hidden names are passed over, others that are not wanted
 * are counted. */
static ronde_status folder_list(const char *folder, entry_kind kind, ronde__files *files_out, int64_t *n_others_out) {
  ronde__files files = {.n = 0};
  ronde_status status = RONDE_OK;
  struct dirent *entry;
  DIR *dir = opendir(folder);
  if (!dir) return ronde__fail(RONDE_E_INPUT, "%s: cannot open: %s", folder, strerror(errno));
  *n_others_out = 0;
  while (status == RONDE_OK && (entry = readdir(dir))) {
    if (entry->d_name[0] == '.') continue;
    char *path = ronde__format("%s/%s", folder, entry->d_name);
    if (path && (!entry_is(path, kind) || (kind == KIND_FILE && !ronde__image_name(entry->d_name)))) {
      ++*n_others_out;
      free(path);
      continue;
    }
    status = ronde__files_add(&files, path, 0);
  }
  closedir(dir);
  if (status != RONDE_OK) {
    ronde__files_release(&files);
    return status;
  }
  if (files.n) qsort(files.path, (size_t)files.n, sizeof *files.path, folder_by_bytes);
  *files_out = files;
  return RONDE_OK;
}

static const char *path_last_name(const char *path) { return strrchr(path, '/') + 1; }

static ronde_status add_class(const char *folder, int64_t label, ronde__files *to, int64_t *n_others) {
  ronde__files images;
  int64_t others;
  RONDE_TRY(folder_list(folder, KIND_FILE, &images, &others));
  ronde_status status = RONDE_OK;
  if (images.n == 0)
    status = ronde__fail(RONDE_E_INPUT, "%s: this class is empty: it has no .png, .jpg or .jpeg file", folder);
  for (int64_t i = 0; i < images.n && status == RONDE_OK; ++i) {
    status = ronde__files_add(to, images.path[i], label);
    images.path[i] = NULL; /* handed on */
  }
  ronde__files_release(&images);
  *n_others += others;
  return status;
}

/* Returns -1 where there is no such class. */
static int64_t find_class(const ronde__files *classes, const char *name) {
  for (int64_t i = 0; i < classes->n; ++i)
    if (!strcmp(classes->path[i], name)) return i;
  return -1;
}

/* The training split names the classes, and each class of the test split must be one of them. Without a training
 * split the test split names them. */
static ronde_status add_classes(const ronde__files *folders, ronde_split split, ronde__set *set, int64_t *n_others) {
  bool names_them = split == RONDE_SPLIT_TRAIN || set->files[RONDE_SPLIT_TRAIN].n == 0;
  for (int64_t i = 0; i < folders->n; ++i) {
    const char *name = path_last_name(folders->path[i]);
    if (names_them) RONDE_TRY(ronde__files_add(&set->class_names, ronde__strdup(name), 0));
    int64_t label = find_class(&set->class_names, name);
    if (label < 0)
      return ronde__fail(RONDE_E_INPUT, "%s: there is no class of this name among the training images",
                         folders->path[i]);
    RONDE_TRY(add_class(folders->path[i], label, &set->files[split], n_others));
  }
  return RONDE_OK;
}

static ronde_status find_split(const char *folder, ronde_split split, ronde__set *set) {
  ronde__files folders;
  int64_t n_others;
  RONDE_TRY(folder_list(folder, KIND_FOLDER, &folders, &n_others));
  ronde_status status = RONDE_OK;
  if (folders.n == 0)
    status = ronde__fail(RONDE_E_INPUT, "%s: it has no folders in it, but one folder per class is needed", folder);
  if (status == RONDE_OK && folders.n > RONDE__LABEL_MAX + 1)
    status = ronde__fail(RONDE_E_INPUT, "%s: more than %d classes", folder, RONDE__LABEL_MAX + 1);
  if (status == RONDE_OK) status = add_classes(&folders, split, set, &n_others);
  if (status == RONDE_OK && n_others)
    ronde__log(RONDE_LOG_WARNING, "%s: %lld entries are ignored: they are not .png, .jpg or .jpeg files of a class",
               folder, (long long)n_others);
  ronde__files_release(&folders);
  return status;
}

static bool has_folder(const char *dir, const char *name) {
  char *path = ronde__format("%s/%s", dir, name);
  bool found = path && entry_is(path, KIND_FOLDER);
  free(path);
  return found;
}

/* Whether DIR/name holds folders: a class may have this name too, but holds images. */
static bool is_split(const char *dir, const char *name) {
  char *path = ronde__format("%s/%s", dir, name);
  ronde__files folders = {.n = 0};
  int64_t others;
  bool found = path && entry_is(path, KIND_FOLDER) && folder_list(path, KIND_FOLDER, &folders, &others) == RONDE_OK;
  found = found && folders.n > 0;
  ronde__files_release(&folders);
  free(path);
  return found;
}

static ronde_status find_below(const char *dir, const char *name, ronde_split split, ronde__set *set) {
  char *path = ronde__format("%s/%s", dir, name);
  ronde_status status = path ? find_split(path, split, set) : ronde__fail(RONDE_E_MEMORY, "%s: no memory", dir);
  free(path);
  return status;
}

ronde_status ronde__folder_find(const char *dir, ronde__set *set) {
  set->kind = &ronde__folder_kind;
  if (!dir || !*dir) return ronde__fail(RONDE_E_USAGE, "data set folder: no folder is given: write folder:DIR");
  if (!entry_is(dir, KIND_FOLDER)) return ronde__fail(RONDE_E_INPUT, "%s: no such folder", dir);
  bool test = has_folder(dir, "test"), val = has_folder(dir, "val");
  bool train = is_split(dir, "train") || (has_folder(dir, "train") && (test || val));
  test = test && (train || is_split(dir, "test"));
  val = val && (train || is_split(dir, "val"));
  if (train) RONDE_TRY(find_below(dir, "train", RONDE_SPLIT_TRAIN, set));
  if (test || val) RONDE_TRY(find_below(dir, test ? "test" : "val", RONDE_SPLIT_TEST, set));
  if (!train && !test && !val) RONDE_TRY(find_split(dir, RONDE_SPLIT_TRAIN, set));
  set->test_is_val = val && !test;
  if (test && val && !(set->other_val = ronde__format("%s/val", dir)))
    return ronde__fail(RONDE_E_MEMORY, "%s: no memory", dir);
  set->classes = set->class_names.n;
  return RONDE_OK;
}

ronde_status ronde__folder_take_val(ronde__set *set) {
  if (!set->other_val) return RONDE_OK;
  ronde__files_release(&set->files[RONDE_SPLIT_TEST]);
  if (set->files[RONDE_SPLIT_TRAIN].n == 0) ronde__files_release(&set->class_names);
  RONDE_TRY(find_split(set->other_val, RONDE_SPLIT_TEST, set));
  set->classes = set->class_names.n;
  set->test_is_val = true;
  return RONDE_OK;
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

/* channels 0: the header only. A broken image gives RONDE_E_INPUT and a reason, but logs nothing. A file that cannot
 * be opened is logged and gives no reason. */
static ronde_status folder_read_file(const char *path, int channels, ronde__image *image_out, uint8_t **planes_out,
                                     char reason[RONDE__REASON_BYTES]) {
  uint8_t *data;
  size_t bytes;
  RONDE_TRY(ronde__image_load(path, &data, &bytes));
  *reason = '\0';
  ronde_status status = channels ? ronde__image_planes(data, bytes, channels, image_out, planes_out, reason)
                                 : ronde__image_head(data, bytes, image_out, reason);
  ronde__free(data);
  return status;
}

/* Logs the error, unless the image is to be skipped. */
static ronde_status folder_refuse(const ronde__set *set, const char *path, ronde_status status, const char *reason,
                                  bool *skip_out) {
  *skip_out = set->skip_bad && status == RONDE_E_INPUT && *reason;
  if (*skip_out) return RONDE_OK;
  return *reason ? ronde__fail(status, "%s: %s", path, reason) : status;
}

typedef struct folder_survey {
  ronde__facts facts;
  const char *first; /* image that was read */
  ronde__image sides;
} folder_survey;

static ronde_status take_image(const ronde__set *set, const char *path, const ronde__image *image, folder_survey *s) {
  if (!s->first) {
    s->first = path;
    s->sides = *image;
  }
  if (image->colour) s->facts.dims[0] = 3;
  bool same = image->height == s->sides.height && image->width == s->sides.width;
  if (same || set->resize[0]) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: this image is %lldx%lld, but %s is %lldx%lld: give --resize HxW", path,
                     (long long)image->height, (long long)image->width, s->first, (long long)s->sides.height,
                     (long long)s->sides.width);
}

/* Reads headers alone, unless broken images are to be skipped: how many there are shows only when all are decoded. */
static ronde_status folder_survey_file(const ronde__set *set, ronde_split split, const char *path, folder_survey *s) {
  char reason[RONDE__REASON_BYTES];
  ronde__image image;
  uint8_t *planes = NULL;
  ronde_status status = folder_read_file(path, set->skip_bad ? 3 : 0, &image, &planes, reason);
  ronde__free(planes);
  if (status == RONDE_OK) {
    ++s->facts.n[split];
    return take_image(set, path, &image, s);
  }
  bool skip;
  RONDE_TRY(folder_refuse(set, path, status, reason, &skip));
  if (++s->facts.n_skipped <= NAMED_MAX) ronde__log(RONDE_LOG_WARNING, "%s: skipped: %s", path, reason);
  return RONDE_OK;
}

static ronde_status folder_scan(const ronde__set *set, ronde__facts *facts_out) {
  folder_survey s = {.facts.dims = {1}};
  for (int split = 0; split < 2; ++split) {
    const ronde__files *files = &set->files[split];
    for (int64_t i = 0; i < files->n; ++i) RONDE_TRY(folder_survey_file(set, split, files->path[i], &s));
    if (files->n && s.facts.n[split] == 0)
      return ronde__fail(RONDE_E_INPUT, "folder: none of the %lld %s images can be read", (long long)files->n,
                         split == RONDE_SPLIT_TRAIN ? "training"
                         : set->test_is_val         ? "validation"
                                                    : "test");
  }
  s.facts.dims[1] = set->resize[0] ? set->resize[0] : s.sides.height;
  s.facts.dims[2] = set->resize[0] ? set->resize[1] : s.sides.width;
  *facts_out = s.facts;
  return RONDE_OK;
}

/* From planes of any size to those of the set, rounded to the nearest. */
static ronde_status folder_fit(const ronde__facts *facts, const uint8_t *planes, const ronde__image *image,
                               uint8_t *x) {
  const int64_t from[2] = {image->height, image->width};
  int64_t elems = ronde__facts_elems(facts);
  if (from[0] == facts->dims[1] && from[1] == facts->dims[2]) {
    memcpy(x, planes, (size_t)elems);
    return RONDE_OK;
  }
  ronde__resizer *resizer;
  float *values;
  RONDE__ALLOC(values, (size_t)elems * sizeof *values, "folder");
  ronde_status status = ronde__resizer_create(from, facts->dims + 1, &resizer);
  if (status == RONDE_OK) {
    ronde__resize_u8(resizer, facts->dims[0], planes, values);
    for (int64_t i = 0; i < elems; ++i) x[i] = (uint8_t)(values[i] + .5f); /* within 0..255 as what it lies between */
    ronde__resizer_destroy(resizer);
  }
  ronde__free(values);
  return status;
}

static ronde_status folder_changed(const char *path) {
  return ronde__fail(RONDE_E_INPUT, "%s: the file changed while it was in use", path);
}

/* x: of the next example; *taken_out: whether there was one. */
static ronde_status folder_fill_file(const ronde__set *set, const ronde__facts *facts, const char *path, bool room,
                                     uint8_t *x, bool *taken_out) {
  char reason[RONDE__REASON_BYTES];
  ronde__image image;
  uint8_t *planes;
  bool skip;
  *taken_out = false;
  ronde_status status = folder_read_file(path, (int)facts->dims[0], &image, &planes, reason);
  if (status != RONDE_OK) return folder_refuse(set, path, status, reason, &skip);
  bool fits = set->resize[0] || (image.height == facts->dims[1] && image.width == facts->dims[2]);
  status = room && fits ? folder_fit(facts, planes, &image, x) : folder_changed(path);
  ronde__free(planes);
  *taken_out = status == RONDE_OK;
  return status;
}

static ronde_status folder_fill(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x,
                                int64_t *labels, float *targets) {
  const ronde__files *files = &set->files[split];
  int64_t elems = ronde__facts_elems(facts), n = 0;
  for (int64_t i = 0; i < files->n; ++i) {
    bool taken, room = n < facts->n[split];
    RONDE_TRY(folder_fill_file(set, facts, files->path[i], room, (uint8_t *)x + (room ? n : 0) * elems, &taken));
    if (taken) labels[n++] = files->label[i];
  }
  return n == facts->n[split] ? RONDE_OK : folder_changed(files->path[files->n - 1]);
}

const ronde__set_kind ronde__folder_kind = {folder_scan, folder_fill};

/* From NAME[:DIR] to the files of a set: where published sets are looked for, and the names of their files. */
#include "data/catalog.h"

#include "data/bpe.h"
#include "data/columns.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef ronde_status (*find_fn)(const char *rest, ronde__set *set);

static ronde_status find_idx(const char *dir, ronde__set *set);
static ronde_status find_npy(const char *dir, ronde__set *set);
static ronde_status find_csv(const char *path, ronde__set *set);
static ronde_status find_cifar10(const char *dir, ronde__set *set);
static ronde_status find_cifar100(const char *dir, ronde__set *set);
static ronde_status find_synthetic(const char *shape, ronde__set *set);
static ronde_status find_text(const char *path, ronde__set *set);
static ronde_status find_pairs(const char *path, ronde__set *set);

static const struct catalog_entry {
  const char *name;
  find_fn find; /* gets what follows the colon, or NULL */
  int64_t class_limit;
  ronde__normalization normalization; /* the usual one */
} entries[] = {
    {"fashion-mnist", find_idx, 10, {1, {.2860f}, {.3530f}}},
    {"mnist", find_idx, 10, {1, {.1307f}, {.3081f}}},
    {"cifar10", find_cifar10, 10, {3, {.4914f, .4822f, .4465f}, {.2470f, .2435f, .2616f}}},
    {"cifar100", find_cifar100, 100, {3, {.5071f, .4865f, .4409f}, {.2673f, .2564f, .2762f}}},
    {"npy", find_npy, 0, {0}},
    {"csv", find_csv, 0, {0}},
    {"folder", ronde__folder_find, 0, {0}},
    {"text", find_text, 0, {0}},
    {"pairs", find_pairs, 0, {0}},
    {"synthetic", find_synthetic, 0, {0}},
};
#define NAMES                                                                                       \
  "fashion-mnist, mnist, cifar10, cifar100, npy:DIR, csv:FILE, folder:DIR, text:FILE, pairs:FILE, " \
  "synthetic:CxHxW:classes:n"

static ronde_status catalog_no_memory(const ronde__set *set) {
  return ronde__fail(RONDE_E_MEMORY, "%s: no memory", set->name);
}

/* ---- IDX -------------------------------------------------------------------------------------------------------- */

/* The first spelling of a file that is there, owned by the caller; NULL: none. */
static char *find_file(const char *dir, const char *part, const char *kind) {
  static const char *const spellings[] = {"%s/%s-%s-ubyte", "%s/%s.%s-ubyte", "%s/%s-%s-ubyte.gz", "%s/%s.%s-ubyte.gz"};
  for (size_t i = 0; i < RONDE__COUNT(spellings); ++i) {
    char path[4096];
    int used = snprintf(path, sizeof path, spellings[i], dir, part, kind);
    if (used < (int)sizeof path && !access(path, F_OK)) return ronde__strdup(path);
  }
  return NULL;
}

/* The folders in which a set without a DIR is looked for, in order; NULL past the end. The caller frees them. */
static char *search_folder(int i, const char *name) {
  const char *own = getenv("RONDE_DATA"), *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
  const char *none = "";
  switch (i) {
  case 0: return !ronde__is_empty(own) ? ronde__format("%s/%s", own, name) : ronde__strdup(none);
  case 1: return ronde__strdup(!ronde__is_empty(own) ? own : none);
  case 2:
    if (!ronde__is_empty(xdg)) return ronde__format("%s/ronde/%s", xdg, name);
    return !ronde__is_empty(home) ? ronde__format("%s/.local/share/ronde/%s", home, name) : ronde__strdup(none);
  case 3: return ronde__format("/usr/share/datasets/%s", name);
  default: return NULL;
  }
}

/* The first file of a set in a folder, to be freed; NULL: it is not there. */
typedef char *(*probe_fn)(const char *dir);

/* what: the file to look for, in words. */
static ronde_status catalog_search(const ronde__set *set, probe_fn probe, const char *what, char **dir_out) {
  char looked[600] = "";
  size_t used = 0;
  char *dir;
  for (int i = 0; (dir = search_folder(i, set->name)); ++i) {
    char *first = *dir ? probe(dir) : NULL;
    free(first);
    if (first) {
      *dir_out = dir;
      return RONDE_OK;
    }
    if (*dir && used < sizeof looked)
      used += (size_t)snprintf(looked + used, sizeof looked - used, "%s%s", used ? ", " : "", dir);
    free(dir);
  }
  return ronde__fail(
      RONDE_E_INPUT,
      "%s: files not found: download them by `ronde data get %s`, or name their folder as %s:DIR; looked for %s in %s",
      set->name, set->name, set->name, what, looked);
}

static char *first_of_idx(const char *dir) { return find_file(dir, "train-images", "idx3"); }

static ronde_status find_pair(const char *dir, int split, ronde__set *set) {
  const char *x_part = split == RONDE_SPLIT_TRAIN ? "train-images" : "t10k-images";
  const char *y_part = split == RONDE_SPLIT_TRAIN ? "train-labels" : "t10k-labels";
  set->x_path[split] = find_file(dir, x_part, "idx3");
  set->y_path[split] = find_file(dir, y_part, "idx1");
  if (set->x_path[split] && set->y_path[split]) return RONDE_OK;
  if (split == RONDE_SPLIT_TEST && !set->x_path[split] && !set->y_path[split]) {
    ronde__log(RONDE_LOG_WARNING, "%s: no t10k files in %s: there are no test examples", set->name, dir);
    return RONDE_OK;
  }
  bool images = !set->x_path[split];
  return ronde__fail(RONDE_E_INPUT, "%s/%s-%s-ubyte: not found, with or without .gz", dir, images ? x_part : y_part,
                     images ? "idx3" : "idx1");
}

static ronde_status find_idx(const char *given_dir, ronde__set *set) {
  char *dir = NULL;
  if (given_dir) dir = ronde__strdup(given_dir);
  else RONDE_TRY(catalog_search(set, first_of_idx, "train-images-idx3-ubyte[.gz]", &dir));
  if (!dir) return catalog_no_memory(set);
  set->kind = &ronde__idx_kind;
  ronde_status status = find_pair(dir, RONDE_SPLIT_TRAIN, set);
  if (status == RONDE_OK) status = find_pair(dir, RONDE_SPLIT_TEST, set);
  free(dir);
  return status;
}

/* ---- CIFAR ------------------------------------------------------------------------------------------------------ */

#define CIFAR10_FOLDER "cifar-10-batches-bin"
#define CIFAR100_FOLDER "cifar-100-binary"

/* In DIR itself or in the folder of the published archive, perhaps compressed; to be freed; NULL: none. */
static char *find_cifar_batch(const char *dir, const char *folder, const char *name) {
  for (int i = 0; i < 4; ++i) {
    const char *end = i < 2 ? "" : ".gz";
    char *path = i % 2 ? ronde__format("%s/%s/%s%s", dir, folder, name, end) : ronde__format("%s/%s%s", dir, name, end);
    if (path && !access(path, F_OK)) return path;
    free(path);
  }
  return NULL;
}

static char *first_of_cifar10(const char *dir) { return find_cifar_batch(dir, CIFAR10_FOLDER, "data_batch_1.bin"); }
static char *first_of_cifar100(const char *dir) { return find_cifar_batch(dir, CIFAR100_FOLDER, "train.bin"); }

/* All files of a split. The test split may have none. */
static ronde_status find_cifar_batches(const char *dir, const char *folder, const char *const *names, int n, int split,
                                       ronde__set *set) {
  ronde__files *files = &set->files[split];
  files->path = calloc((size_t)n, sizeof *files->path);
  if (!files->path) return catalog_no_memory(set);
  for (int i = 0; i < n; ++i) {
    char *path = find_cifar_batch(dir, folder, names[i]);
    if (path) {
      files->path[files->n++] = path;
    } else if (split == RONDE_SPLIT_TEST) {
      ronde__log(RONDE_LOG_WARNING, "%s: no %s in %s: there are no test examples", set->name, names[i], dir);
    } else {
      return ronde__fail(RONDE_E_INPUT, "%s/%s: not found, nor in %s/", dir, names[i], folder);
    }
  }
  return RONDE_OK;
}

static ronde_status find_cifar10(const char *given_dir, ronde__set *set) {
  static const char *const train[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                      "data_batch_5.bin"};
  static const char *const test[] = {"test_batch.bin"};
  char *dir = NULL;
  if (given_dir) dir = ronde__strdup(given_dir);
  else RONDE_TRY(catalog_search(set, first_of_cifar10, "data_batch_1.bin", &dir));
  if (!dir) return catalog_no_memory(set);
  set->kind = &ronde__cifar10_kind;
  ronde_status status = find_cifar_batches(dir, CIFAR10_FOLDER, train, RONDE__COUNT(train), RONDE_SPLIT_TRAIN, set);
  if (status == RONDE_OK) status = find_cifar_batches(dir, CIFAR10_FOLDER, test, 1, RONDE_SPLIT_TEST, set);
  free(dir);
  return status;
}

static ronde_status find_cifar100(const char *given_dir, ronde__set *set) {
  static const char *const train[] = {"train.bin"}, *const test[] = {"test.bin"};
  char *dir = NULL;
  if (given_dir) dir = ronde__strdup(given_dir);
  else RONDE_TRY(catalog_search(set, first_of_cifar100, "train.bin", &dir));
  if (!dir) return catalog_no_memory(set);
  set->kind = &ronde__cifar100_kind;
  ronde_status status = find_cifar_batches(dir, CIFAR100_FOLDER, train, 1, RONDE_SPLIT_TRAIN, set);
  if (status == RONDE_OK) status = find_cifar_batches(dir, CIFAR100_FOLDER, test, 1, RONDE_SPLIT_TEST, set);
  free(dir);
  return status;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

char *ronde__set_folder(const char *name) {
  static const struct {
    const char *name;
    probe_fn first;
  } probes[] = {{"fashion-mnist", first_of_idx},
                {"mnist", first_of_idx},
                {"cifar10", first_of_cifar10},
                {"cifar100", first_of_cifar100}};
  char *dir;
  for (size_t i = 0; i < RONDE__COUNT(probes); ++i)
    for (int at = 0; !strcmp(probes[i].name, name) && (dir = search_folder(at, name)); ++at) {
      char *first = *dir ? probes[i].first(dir) : NULL;
      free(first);
      if (first) return dir;
      free(dir);
    }
  return NULL;
}

char *ronde__set_home(const char *name) {
  for (int at = 0; at <= 2; at += 2) {
    char *dir = search_folder(at, name);
    if (!ronde__is_empty(dir)) return dir;
    free(dir);
  }
  return NULL;
}

/* ---- npy -------------------------------------------------------------------------------------------------------- */

static ronde_status find_npy(const char *dir, ronde__set *set) {
  static const char *const parts[2] = {"train", "test"};
  if (ronde__is_empty(dir)) return ronde__fail(RONDE_E_USAGE, "data set npy: no folder is given: write npy:DIR");
  set->kind = &ronde__npy_kind;
  for (int split = 0; split < 2; ++split) {
    char *x = ronde__format("%s/%s_x.npy", dir, parts[split]), *y = ronde__format("%s/%s_y.npy", dir, parts[split]);
    set->x_path[split] = x;
    set->y_path[split] = y;
    if (!x || !y) return catalog_no_memory(set);
    bool x_absent = access(x, F_OK) && errno == ENOENT, y_absent = access(y, F_OK) && errno == ENOENT;
    if (split == RONDE_SPLIT_TEST && x_absent && y_absent) {
      free(x);
      free(y);
      set->x_path[split] = set->y_path[split] = NULL;
    } else if (x_absent || y_absent) {
      return ronde__fail(RONDE_E_INPUT, "%s: not found", x_absent ? x : y);
    }
  }
  return RONDE_OK;
}

/* ---- csv -------------------------------------------------------------------------------------------------------- */

/* train.csv or test.csv, perhaps compressed, to be freed; NULL: it is not there. */
static char *find_csv_part(const char *dir, const char *part) {
  static const char *const ends[] = {"csv", "csv.gz"};
  for (size_t i = 0; i < RONDE__COUNT(ends); ++i) {
    char *path = ronde__format("%s/%s.%s", dir, part, ends[i]);
    if (path && !access(path, F_OK)) return path;
    free(path);
  }
  return NULL;
}

static ronde_status find_csv(const char *path, ronde__set *set) {
  struct stat st;
  if (ronde__is_empty(path)) return ronde__fail(RONDE_E_USAGE, "data set csv: no file is given: write csv:FILE");
  set->kind = &ronde__csv_kind;
  if (stat(path, &st) || !S_ISDIR(st.st_mode)) {
    set->x_path[RONDE_SPLIT_TRAIN] = ronde__strdup(path);
    return set->x_path[RONDE_SPLIT_TRAIN] ? RONDE_OK : catalog_no_memory(set);
  }
  set->x_path[RONDE_SPLIT_TRAIN] = find_csv_part(path, "train");
  set->x_path[RONDE_SPLIT_TEST] = find_csv_part(path, "test");
  if (set->x_path[RONDE_SPLIT_TRAIN]) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s/train.csv: not found, with or without .gz", path);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static ronde_status find_tokens(const char *path, const ronde__set_kind *kind, ronde__set *set) {
  set->kind = kind;
  set->classes = UINT8_MAX + 1;
  set->x_path[RONDE_SPLIT_TRAIN] = ronde__strdup(path);
  return set->x_path[RONDE_SPLIT_TRAIN] ? RONDE_OK : catalog_no_memory(set);
}

static ronde_status find_text(const char *path, ronde__set *set) {
  if (ronde__is_empty(path)) return ronde__fail(RONDE_E_USAGE, "data set text: no file is given: write text:FILE");
  return find_tokens(path, &ronde__text_kind, set);
}

static ronde_status find_pairs(const char *path, ronde__set *set) {
  if (ronde__is_empty(path)) return ronde__fail(RONDE_E_USAGE, "data set pairs: no file is given: write pairs:FILE");
  return find_tokens(path, &ronde__pairs_kind, set);
}

/* ---- synthetic -------------------------------------------------------------------------------------------------- */

static bool parse_count(const char **at, char after, int64_t max, int64_t *value_out) {
  char *end;
  if (**at < '0' || **at > '9') return false;
  errno = 0;
  long long value = strtoll(*at, &end, 10);
  if (errno || value < 1 || value > max || *end != after) return false;
  *at = after ? end + 1 : end;
  *value_out = value;
  return true;
}

static ronde_status find_synthetic(const char *shape, ronde__set *set) {
  const char *at = shape ? shape : "";
  const int64_t side_max = 1 << 15;
  int64_t n;
  bool ok = parse_count(&at, 'x', side_max, &set->dims[0]) && parse_count(&at, 'x', side_max, &set->dims[1]) &&
            parse_count(&at, ':', side_max, &set->dims[2]) &&
            parse_count(&at, ':', RONDE__LABEL_MAX + 1, &set->classes) && parse_count(&at, '\0', INT64_MAX, &n);
  if (!ok)
    return ronde__fail(RONDE_E_USAGE,
                       "data set synthetic:%s: expected synthetic:CxHxW:classes:n, with numbers of at least 1",
                       RONDE__SHOWN(shape ? shape : ""));
  set->kind = &ronde__synthetic_kind;
  set->n[RONDE_SPLIT_TRAIN] = n;
  set->n[RONDE_SPLIT_TEST] = ronde__max(n / 5, 1);
  char *name = ronde__format("%s:%s", set->name, shape);
  if (!name) return catalog_no_memory(set);
  free(set->name);
  set->name = name;
  return RONDE_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* A bare folder in place of a name: the message says how to write it. */
static ronde_status bare_folder(const char *dir) {
  char shown[RONDE__SHOWN_BYTES];
  const struct {
    const char *name, *holds;
    char *first;
  } kinds[] = {{"npy", "train_x.npy", ronde__format("%s/train_x.npy", dir)},
               {"csv", "train.csv", find_csv_part(dir, "train")},
               {"mnist", "IDX files", first_of_idx(dir)},
               {"cifar10", "CIFAR-10's files", first_of_cifar10(dir)},
               {"cifar100", "CIFAR-100's files", first_of_cifar100(dir)}};
  const char *name = NULL, *holds = NULL;
  for (size_t i = 0; i < RONDE__COUNT(kinds); ++i) {
    if (!name && kinds[i].first && !access(kinds[i].first, F_OK)) name = kinds[i].name, holds = kinds[i].holds;
    free(kinds[i].first);
  }
  ronde__shown(dir, shown);
  if (name)
    return ronde__fail(RONDE_E_USAGE, "data set %s: it is a folder with %s: write --data %s:%s", shown, holds, name,
                       shown);
  return ronde__fail(
      RONDE_E_USAGE,
      "data set %s: it is a folder: write --data folder:%s for images, one folder a class, or npy:%s for "
      "train_x.npy and train_y.npy",
      shown, shown, shown);
}

/* The nearest name, if one is near; NULL: none. */
static const char *near_name(const char *spec, size_t length) {
  char name[64];
  const char *nearest = NULL;
  int least = 0;
  snprintf(name, sizeof name, "%.*s", (int)ronde__min((int64_t)length, 63), spec);
  for (char *c = name; *c; ++c) *c = (char)tolower((unsigned char)*c);
  for (size_t i = 0; i < RONDE__COUNT(entries); ++i) {
    int distance = ronde__edit_distance(name, entries[i].name);
    if (!ronde__is_near(entries[i].name, distance) || (nearest && distance >= least)) continue;
    nearest = entries[i].name;
    least = distance;
  }
  return nearest;
}

static ronde_status unknown_name(const char *spec, size_t length) {
  char shown[RONDE__SHOWN_BYTES];
  struct stat st;
  bool there = !stat(spec, &st);
  if (there && S_ISDIR(st.st_mode)) return bare_folder(spec);
  if (there && strstr(spec, ".csv"))
    return ronde__fail(RONDE_E_USAGE, "data set %s: it is a file: write --data csv:%s", ronde__shown(spec, shown),
                       shown);
  if (there)
    return ronde__fail(RONDE_E_USAGE, "data set %s: it is a file, but a data set is needed: " NAMES,
                       ronde__shown(spec, shown));
  if (strchr(spec, '/') && length == strlen(spec))
    return ronde__fail(RONDE_E_INPUT, "%s: no such file or folder, nor a data set of this name: there are " NAMES,
                       ronde__shown(spec, shown));
  const char *near = near_name(spec, length);
  ronde__shown(spec, shown);
  if (length < strlen(shown)) shown[length] = '\0';
  if (!near) return ronde__fail(RONDE_E_USAGE, "data set %s is unknown: there are " NAMES, shown);
  return ronde__fail(RONDE_E_USAGE, "data set %s is unknown: did you mean %s? There are " NAMES, shown, near);
}

/* Whether a spec is of that name. */
static bool is_of(const char *spec, const char *name) {
  size_t n = strlen(name);
  return spec && !strncmp(spec, name, n) && (!spec[n] || spec[n] == ':');
}

bool ronde__data_is_of_arrays(const char *spec) { return is_of(spec, "npy"); }
bool ronde__data_is_of_columns(const char *spec) { return is_of(spec, "csv"); }
bool ronde__data_is_of_images(const char *spec) { return is_of(spec, "folder"); }
bool ronde__data_is_of_text(const char *spec) { return is_of(spec, "text"); }
bool ronde__data_has_window(const char *spec) { return is_of(spec, "text") || is_of(spec, "pairs"); }

ronde_status ronde__set_find(const char *spec, uint64_t seed, ronde__set *set_out) {
  if (ronde__is_empty(spec)) return ronde__fail(RONDE_E_USAGE, "no data set is named");
  size_t length = strcspn(spec, ":");
  const char *rest = spec[length] ? spec + length + 1 : NULL;
  const struct catalog_entry *entry = NULL;
  for (size_t i = 0; i < RONDE__COUNT(entries); ++i)
    if (strlen(entries[i].name) == length && !memcmp(entries[i].name, spec, length)) entry = &entries[i];
  if (!entry) return unknown_name(spec, length);
  ronde__set set = {
      .name = ronde__strdup(entry->name), .class_limit = entry->class_limit, .normalization = entry->normalization};
  if (!set.name) return ronde__fail(RONDE_E_MEMORY, "data set %s: no memory", spec);
  ronde_status status = entry->find(rest, &set);
  /* The seed changes nothing in other sets, so it must not lead to another cache file. */
  if (set.kind == &ronde__synthetic_kind) set.seed = seed;
  if (status == RONDE_OK) *set_out = set;
  else ronde__set_release(&set);
  return status;
}

void ronde__set_release(ronde__set *set) {
  free(set->name);
  for (int split = 0; split < 2; ++split) {
    free(set->x_path[split]);
    free(set->y_path[split]);
    ronde__files_release(&set->files[split]);
  }
  ronde__files_release(&set->class_names);
  ronde__columns_destroy(set->columns);
  ronde__bpe_destroy(set->bpe);
  free(set->other_val);
  *set = (ronde__set){.name = NULL};
}

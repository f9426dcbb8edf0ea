/* What a file of weights says of its classes and of what its run kept out: JSON in its metadata. What is accepted makes
 * sense. */
#include "job/job.h"
#include "job/split.h"
#include "setup/setup.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) abort();
}

static void read_names(const ronde__safetensors *file) {
  ronde__class_names names = {0};
  if (ronde__class_names_read(file, "fuzz", &names) != RONDE_OK) {
    require(names.n == 0 && !names.name);
    return;
  }
  for (int64_t i = 0; i < names.n; ++i) require(names.name[i] != NULL);
  ronde__class_names_release(&names);
}

static void read_split(const ronde__safetensors *file) {
  ronde__split_note note = {0};
  if (ronde__split_read(file, "fuzz", &note) != RONDE_OK) return;
  require(note.fraction > 0 && note.fraction < 1 && note.n_validation > 0 && note.n_validation < note.n_train);
  require(memchr(note.data_sha256, 0, sizeof note.data_sha256) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  require(text != NULL);
  if (size) memcpy(text, data, size);
  text[size] = '\0';
  ronde__file_meta meta[] = {{RONDE__META_CLASS_NAMES, text}, {RONDE__META_SPLIT, text}};
  const ronde__safetensors file = {.n_meta = 2, .meta = meta};
  read_names(&file);
  read_split(&file);
  free(text);
  return 0;
}

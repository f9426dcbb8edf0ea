/* The fuzzers without libFuzzer, for any compiler, in one program that is linked once: replays the files of folders by the
 * fuzzer that the first argument names.
 *     build/replay tar_fuzz fuzz/corpus/tar
 * Exit code 1 where a folder holds none or a file cannot be read, as a fuzzer that saw nothing has shown nothing. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Each fuzzer's LLVMFuzzerTestOneInput() has been given the fuzzer's name by the build. */
typedef int fuzzer(const uint8_t *data, size_t size);
#define FUZZER(name) fuzzer name;
#include "fuzzers.inc"
#undef FUZZER

static const struct {
  const char *name;
  fuzzer *run;
} fuzzers[] = {
#define FUZZER(name) {#name, name},
#include "fuzzers.inc"
#undef FUZZER
};
enum { N_FUZZERS = sizeof fuzzers / sizeof *fuzzers };

/* False where it cannot be read. The bytes are allocated to the byte, so that a sanitizer sees one read too many. */
static bool replay(fuzzer *run, const char *path) {
  FILE *file = fopen(path, "rb");
  struct stat status;
  if (!file || fstat(fileno(file), &status) || !S_ISREG(status.st_mode)) {
    if (file) fclose(file);
    return false;
  }
  size_t bytes = (size_t)status.st_size;
  uint8_t *data = malloc(bytes);
  bool whole = (data || !bytes) && fread(data, 1, bytes, file) == bytes;
  fclose(file);
  if (whole) run(data, bytes);
  free(data);
  return whole;
}

static int replay_folder(fuzzer *run, const char *folder) {
  int n = 0;
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    char path[4096];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (!replay(run, path)) {
      fprintf(stderr, "%s: cannot be read\n", path);
      n = -1;
      break;
    }
    n++;
  }
  if (dir) closedir(dir);
  if (n == 0) fprintf(stderr, "%s: no files\n", folder);
  return n;
}

int main(int argc, char **argv) {
  fuzzer *run = NULL;
  int n = 0;
  for (int i = 0; argc > 1 && i < N_FUZZERS; i++)
    if (!strcmp(fuzzers[i].name, argv[1])) run = fuzzers[i].run;
  if (!run) {
    fprintf(stderr, "usage: %s FUZZER FOLDER...; the fuzzers:\n", argv[0]);
    for (int i = 0; i < N_FUZZERS; i++) fprintf(stderr, "  %s\n", fuzzers[i].name);
    return 2;
  }
  for (int i = 2; i < argc; i++) {
    int files = replay_folder(run, argv[i]);
    if (files <= 0) return 1;
    n += files;
  }
  printf("%d inputs\n", n);
  return n == 0;
}

/* A fuzzer without libFuzzer, for any compiler: replays the files of the folders that it is given. Exit code 1 where a folder
 * holds none or a file cannot be read, as a fuzzer that saw nothing has shown nothing. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* False where it cannot be read. The bytes are allocated to the byte, so that a sanitizer sees one read too many. */
static bool replay(const char *path) {
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
  if (whole) LLVMFuzzerTestOneInput(data, bytes);
  free(data);
  return whole;
}

static int replay_folder(const char *folder) {
  int n = 0;
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    char path[4096];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (!replay(path)) {
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
  int n = 0;
  for (int i = 1; i < argc; i++) {
    int files = replay_folder(argv[i]);
    if (files <= 0) return 1;
    n += files;
  }
  printf("%d inputs\n", n);
  return n == 0;
}

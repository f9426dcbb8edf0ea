/* The folder of a test of training, and what was logged in it. */
#include "lib/folder.h"

char *folder;
test_log lines;

int make_folder_with_log(void **state) {
  folder = test_folder_create();
  test_log_start(&lines);
  return 0;
}

int make_folder_with_cache(void **state) {
  make_folder_with_log(state);
  setenv("RONDE_CACHE_DIR", folder, 1);
  return 0;
}

int remove_folder(void **state) {
  ronde_log_set(NULL, NULL);
  test_folder_destroy(folder);
  return 0;
}

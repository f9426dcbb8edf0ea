/* The folder of a test of training, and what was logged in it. */
#include "lib/folder.h"

char *folder;
test_log lines;

int remove_folder(void **state) {
  ronde_log_set(NULL, NULL);
  test_folder_destroy(folder);
  return 0;
}

/* The folder of a test of training, and what was logged in it. */
#ifndef RONDE_TEST_FOLDER_H
#define RONDE_TEST_FOLDER_H

#include "data/testing.h"

extern char *folder; /* of each test; where every run happens */
extern test_log lines;

/* For cmocka: makes it, and listens to the log. */
int make_folder_with_log(void **state);
/* Caches of data lie there too. */
int make_folder_with_cache(void **state);
/* For cmocka: removes the folder, and no longer listens to the log. */
int remove_folder(void **state);

#endif

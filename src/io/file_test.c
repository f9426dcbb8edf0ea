/* Files that are whole or absent, folders, and what is said where they cannot be written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "io/folder_testing.h"

static int count_files(const char *path) {
  DIR *dir = opendir(path);
  assert_non_null(dir);
  int n = 0;
  for (struct dirent *e; (e = readdir(dir));) n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
  closedir(dir);
  return n;
}

static void assert_content(const char *path, const char *text) {
  char read[64] = "";
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  size_t n = fread(read, 1, sizeof read - 1, file);
  fclose(file);
  assert_int_equal(n, strlen(text));
  assert_string_equal(read, text);
}

/* One line that names the file and the reason; nothing else in its folder. */
static void assert_refused(ronde_status status, const char *path, const char *reason) {
  assert_int_equal(status, RONDE_E_WRITE);
  assert_int_equal(n_lines, 1);
  assert_ptr_equal(strstr(last_line, path), last_line);
  assert_non_null(strstr(last_line, reason));
  n_lines = 0;
}

static void replaces_and_leaves_nothing_else(void **state) {
  const char *path = in_folder("a.json");
  assert_int_equal(ronde__file_replace(path, "first", 5), RONDE_OK);
  assert_content(path, "first");
  assert_int_equal(ronde__file_replace(path, "2nd", 3), RONDE_OK);
  assert_content(path, "2nd");
  assert_int_equal(ronde__file_replace(path, NULL, 0), RONDE_OK);
  assert_content(path, "");
  assert_int_equal(count_files(folder), 1);
  assert_int_equal(n_lines, 0);
}

static void a_name_without_folder_goes_to_the_current_one(void **state) {
  int before = open(".", O_RDONLY | O_DIRECTORY);
  assert_int_equal(chdir(folder), 0);
  assert_int_equal(ronde__file_replace("plain", "x", 1), RONDE_OK);
  assert_int_equal(fchdir(before), 0);
  close(before);
  assert_content(in_folder("plain"), "x");
}

static void new_files_follow_the_umask(void **state) {
  mode_t before = umask(027);
  ronde_status status = ronde__file_replace(in_folder("a"), "x", 1);
  umask(before);
  assert_int_equal(status, RONDE_OK);
  struct stat info;
  assert_int_equal(stat(in_folder("a"), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0640);
}

static void pieces_are_whole_or_absent(void **state) {
  const char *path = in_folder("a");
  assert_int_equal(ronde__file_replace(path, "old", 3), RONDE_OK);
  ronde__file_out out;
  assert_int_equal(ronde__file_begin(path, &out), RONDE_OK);
  assert_int_equal(ronde__file_append(&out, "ne", 2), RONDE_OK);
  assert_content(path, "old");
  ronde__file_abandon(&out);
  assert_content(path, "old");
  assert_int_equal(count_files(folder), 1);

  assert_int_equal(ronde__file_begin(path, &out), RONDE_OK);
  assert_int_equal(ronde__file_append(&out, "ne", 2), RONDE_OK);
  assert_int_equal(ronde__file_append(&out, "w", 1), RONDE_OK);
  assert_int_equal(ronde__file_commit(&out), RONDE_OK);
  assert_content(path, "new");
  assert_int_equal(count_files(folder), 1);
}

static void bad_targets_are_refused(void **state) {
  assert_refused(ronde__file_replace(in_folder("none/a"), "x", 1), in_folder("none/a"), "No such file or directory");
  assert_int_equal(ronde__file_replace(in_folder("plain"), "x", 1), RONDE_OK);
  assert_refused(ronde__file_replace(in_folder("plain/a"), "x", 1), in_folder("plain/a"), "Not a directory");
  assert_refused(ronde__file_replace(folder, "x", 1), folder, "it is a folder");
  assert_refused(ronde__file_replace(in_folder("b/"), "x", 1), in_folder("b/"), "name is empty");
  assert_refused(ronde__file_replace("", "x", 1), "", "name is empty");
  assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
  assert_refused(ronde__file_replace(in_folder("pipe"), "x", 1), in_folder("pipe"), "not a regular file");
  char name[300];
  memset(name, 'n', sizeof name);
  name[sizeof name - 1] = '\0';
  assert_refused(ronde__file_replace(in_folder(name), "x", 1), in_folder(name), "name too long");
  assert_int_equal(count_files(folder), 2);
}

static void a_read_only_folder_is_refused(void **state) {
  const char *path = in_folder("locked/a");
  assert_int_equal(mkdir(in_folder("locked"), 0777), 0);
  assert_int_equal(chmod(folder, 0755), 0);
  assert_int_equal(chmod(in_folder("locked"), 0555), 0);
  bool root = geteuid() == 0; /* root may write everywhere */
  if (root) assert_int_equal(seteuid(65534), 0);
  ronde_status status = ronde__file_replace(path, "x", 1);
  ronde_status made = ronde__folder_make(in_folder("locked/b"));
  if (root) assert_int_equal(seteuid(0), 0);
  assert_int_equal(made, RONDE_E_WRITE);
  assert_non_null(strstr(last_line, "locked/b: Permission denied"));
  assert_int_equal(status, RONDE_E_WRITE);
  assert_int_equal(n_lines, 2);
  assert_int_equal(count_files(in_folder("locked")), 0);
}

static void a_size_limit_is_reported(void **state) {
  const char *path = in_folder("a");
  assert_int_equal(ronde__file_replace(path, "old", 3), RONDE_OK);
  struct rlimit before, tight;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  tight = before;
  tight.rlim_cur = 10000;
  static char data[50000];
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
  ronde_status status = ronde__file_replace(path, data, sizeof data);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_DFL);
  assert_refused(status, path, "cannot write: File too large");
  assert_content(path, "old");
  assert_int_equal(count_files(folder), 1);
}

static void a_full_disk_is_reported(void **state) {
  const char *disk = in_folder("disk"), *path = in_folder("disk/a");
  assert_int_equal(mkdir(disk, 0777), 0);
  if (mount("tmpfs", disk, "tmpfs", 0, "size=64k")) {
    fprintf(stderr, "SKIP: a full disk: cannot mount a small file system here: %s\n", strerror(errno));
    skip();
  }
  static char data[200000];
  ronde_status before = ronde__file_replace(path, "old", 3);
  ronde_status status = ronde__file_replace(path, data, sizeof data);
  int n = count_files(disk);
  char text[4] = "";
  FILE *file = fopen(path, "r");
  size_t kept = file ? fread(text, 1, 3, file) : 0;
  if (file) fclose(file);
  assert_int_equal(umount(disk), 0);
  assert_int_equal(before, RONDE_OK);
  assert_refused(status, path, "No space left on device");
  assert_int_equal(n, 1);
  assert_int_equal(kept, 3);
  assert_string_equal(text, "old");
}

/* Temporary files of killed processes are removed; those that are being written, here or elsewhere, stay. */
static void a_sweep_spares_what_is_being_written(void **state) {
  static const char *const left[] = {".ronde-1-0.tmp", ".ronde-77-3.tmp", "ronde-1-0.tmp",
                                     ".ronde-1-0.tmp.safetensors"};
  ronde__file_out out;
  for (size_t i = 0; i < RONDE__COUNT(left); i++) fclose(fopen(in_folder(left[i]), "w"));
  assert_int_equal(ronde__file_begin(in_folder("a"), &out), RONDE_OK);
  assert_int_equal(ronde__file_append(&out, "new", 3), RONDE_OK);
  ronde__file_sweep(folder);
  assert_int_equal(count_files(folder), 3);
  assert_int_equal(ronde__file_commit(&out), RONDE_OK);
  assert_content(in_folder("a"), "new");
  ronde__file_sweep(in_folder("none"));
  assert_int_equal(n_lines, 0);
}

static void folders_are_made_with_their_parents(void **state) {
  assert_int_equal(ronde__folder_make(in_folder("a/b//c/")), RONDE_OK);
  assert_int_equal(ronde__folder_make(in_folder("a/b/c")), RONDE_OK);
  assert_int_equal(ronde__file_replace(in_folder("a/b/c/file"), "x", 1), RONDE_OK);
  assert_int_equal(ronde__folder_make("/"), RONDE_OK);
  assert_refused(ronde__folder_make(in_folder("a/b/c/file/d")), in_folder("a/b/c/file/d"), "Not a directory");
  assert_refused(ronde__folder_make(in_folder("a/b/c/file")), in_folder("a/b/c/file"), "Not a directory");
  assert_refused(ronde__folder_make(""), "", "No such file");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(replaces_and_leaves_nothing_else),
      TEST(a_name_without_folder_goes_to_the_current_one),
      TEST(new_files_follow_the_umask),
      TEST(pieces_are_whole_or_absent),
      TEST(bad_targets_are_refused),
      TEST(a_read_only_folder_is_refused),
      TEST(a_size_limit_is_reported),
      TEST(a_full_disk_is_reported),
      TEST(a_sweep_spares_what_is_being_written),
      TEST(folders_are_made_with_their_parents),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

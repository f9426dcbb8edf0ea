/* The built program, killed at random moments while it writes checkpoints as often as it can; a full disk; a folder
 * that cannot be written: what is there afterwards is whole, and the training goes on from it to the same end.
 * RONDE_KILLS=200 ends it that many times instead of some. */
#include "lib/folder.h"
#include "lib/suites.h"
#include "train_testing.h"

#include "state/checkpoint.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

/* Starts `ronde` with words that blanks separate, %s among them being the test's folder; its files may have at most
 * file_limit bytes (0: no limit). Messages go to FOLDER/err. */
static pid_t start(const char *form, rlim_t file_limit) {
  char words[1024], *argv[64] = {(char *)"ronde"}, *err = ronde__format("%s/err", folder);
  int argc = 1;
  snprintf(words, sizeof words, form, folder, folder);
  for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    int fd = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600), nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    struct rlimit limit = {file_limit, file_limit};
    if (file_limit) setrlimit(RLIMIT_FSIZE, &limit);
    execv(RONDE_BINARY_DIR "/ronde", argv);
    _exit(127);
  }
  free(err);
  return child;
}

static int ended(pid_t child) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool said(const char *text) {
  char said[4096] = "", *path = ronde__format("%s/err", folder);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  said[fread(said, 1, sizeof said - 1, file)] = '\0';
  fclose(file);
  free(path);
  bool found = strstr(said, text) != NULL;
  if (!found) print_error("it said: %s\n", said);
  return found;
}

/* Every checkpoint of a run verifies; the newest one's step, or 0 where there is none. */
static int64_t check_whole(const char *run) {
  char **paths, *path = ronde__format("%s/%s", folder, run);
  int n;
  int64_t newest = 0;
  assert_int_equal(ronde__checkpoint_list(path, &paths, &n), RONDE_OK);
  for (int i = 0; i < n; ++i) {
    ronde__resume *resume;
    if (ronde__resume_open(paths[i], &resume)) fail_msg("%s: %s", paths[i], lines.error);
    if (resume->progress.step > newest) newest = resume->progress.step;
    ronde__resume_close(resume);
    free(paths[i]);
  }
  ronde__free(paths);
  free(path);
  return newest;
}

/* The number of a run's newest checkpoint, which need not be whole; -1: none. */
static int64_t newest_step(const char *run) {
  char **paths, *path = ronde__format("%s/%s", folder, run);
  int n;
  assert_int_equal(ronde__checkpoint_list(path, &paths, &n), RONDE_OK);
  int64_t step = n ? strtoll(strrchr(paths[0], '-') + 1, NULL, 10) : -1;
  for (int i = 0; i < n; ++i) free(paths[i]);
  ronde__free(paths);
  free(path);
  return step;
}

static void pause_ns(long ns) { nanosleep(&(struct timespec){0, ns}, NULL); }

/* When a folder last changed; 0: it is not there. */
static int64_t changed_ns(const char *name) {
  struct stat info;
  char *path = ronde__format("%s/%s", folder, name);
  bool there = stat(path, &info) == 0;
  free(path);
  return there ? (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec : 0;
}

#define TRAIN "train --model lenet5 --data synthetic:1x28x28:4:400 --batch 20 --optimizer adam --threads 1 --quiet "

/* Ends a training at some moment; its exit code, or minus the signal. */
typedef int end_fn(pid_t child);

static int end_by_kill(pid_t child) {
  kill(child, SIGKILL);
  return ended(child);
}

/* Behind the first one it may be saving. */
static int end_by_second_signal(pid_t child) {
  kill(child, SIGINT);
  pause_ns(250000000); /* those closer together are one request */
  kill(child, SIGINT);
  return ended(child);
}

/* As a control group or a batch system does it: the launcher, mpirun, and the ranks. */
static int end_all(pid_t child) {
  char *command = ronde__format("exec pkill -TERM -f -- '--out %s/run'", folder);
  assert_int_equal(system(command), 0);
  free(command);
  return ended(child);
}

/* One goes on where the one before it was ended, so that the moments lie all over the training; each is a random time after
 * the folder has changed, which is when a file in it is begun, renamed or removed. The last goes on to the bits of a run that
 * was never ended. */
static void check_ended_at_any_moment(int n_ends, const char *options, end_fn *end, int code) {
  const char *wanted = getenv("RONDE_KILLS");
  int n_resumed = 0;
  uint32_t random = 4711;
  if (wanted) n_ends = atoi(wanted);
  char form[512];
  snprintf(form, sizeof form, TRAIN "--epochs 100000 --checkpoint-every 1 --resume auto %s --out %%s/run", options);
  for (int i = 0; i < n_ends; ++i) {
    int64_t before = changed_ns("run/checkpoints");
    pid_t child = start(form, 0);
    for (int j = 0; j < 30000 && changed_ns("run/checkpoints") == before; ++j) pause_ns(1000000);
    /* Some way is made even where the host is so busy that no other child would make any. */
    int64_t newest = newest_step("run");
    for (int j = 0; j < 30000 && (i % 5 == 4 || i >= n_ends - 2) && newest_step("run") == newest; ++j)
      pause_ns(1000000);
    random = random * 1664525u + 1013904223u;
    pause_ns((long)((uint64_t)random * 200000000u >> 32));
    assert_int_equal(end(child), code);
    n_resumed += check_whole("run") > 0;
  }
  int64_t step = check_whole("run");
  print_message("ended %d times, at last after step %lld; a whole checkpoint after %d\n", n_ends, (long long)step,
                n_resumed);
  assert_true(step > 1);
  const char *runs[] = {"run --resume auto", "straight"};
  for (int i = 0; i < 2; ++i) {
    snprintf(form, sizeof form, TRAIN "--epochs 100000 --steps %lld %s --out %%s/%s", (long long)step + 20, options,
             runs[i]);
    assert_int_equal(ended(start(form, 0)), 0);
  }
  json_t *a, *b;
  char *path = ronde__format("%s/run", folder);
  a = json_file(path, "run.json");
  free(path);
  path = ronde__format("%s/straight", folder);
  b = json_file(path, "run.json");
  free(path);
  assert_string_equal(text_at(a, "result.weights_sha256"), text_at(b, "result.weights_sha256"));
  assert_true(real_at(a, "resumed_from.step") == (double)step);
  json_decref(a);
  json_decref(b);
}

static void test_killed_at_any_moment(void **state) { check_ended_at_any_moment(20, "", end_by_kill, -SIGKILL); }

static void test_killed_at_a_slow_disk(void **state) {
  check_ended_at_any_moment(7, "--drill slow-disk:5", end_by_kill, -SIGKILL);
}

static void test_the_second_signal_at_any_moment(void **state) {
  check_ended_at_any_moment(7, "--drill slow-disk:5", end_by_second_signal, 130);
}

static void test_sigterm_to_all_processes_at_any_moment(void **state) {
  need_mpi();
  check_ended_at_any_moment(5, "--transport mpi --workers 2", end_all, 143);
}

/* Each process of two that write to one folder, as a command started twice by mistake. */
static void test_a_second_run_is_refused_and_the_first_names_it(void **state) {
  pid_t child = start(TRAIN "--epochs 1000000 --checkpoint-every 1s --out %s/run", 0);
  char *holder = ronde__format("another run is writing to this folder (process %ld on host ", (long)child);
  for (int i = 0; i < 3000 && newest_step("run") < 0; ++i) pause_ns(10000000);
  static const char *const again[] = {"--resume auto", "--overwrite", ""};
  for (size_t i = 0; i < RONDE__COUNT(again); ++i) {
    char form[512];
    snprintf(form, sizeof form, TRAIN "--out %%s/run %s", again[i]);
    assert_int_equal(ended(start(form, 0)), 2);
    assert_true(said(holder));
  }
  assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
  kill(child, SIGKILL);
  assert_int_equal(ended(child), -SIGKILL);
  assert_int_equal(ended(start(TRAIN "--out %s/run", 0)), 2);
  assert_true(said("holds another run"));
  assert_int_equal(ended(start(TRAIN "--steps 1 --overwrite --out %s/run", 0)), 0);
  assert_int_equal(check_whole("run"), 1);
  free(holder);
}

static void check_sigterm(const char *run, const char *form) {
  pid_t child = start(form, 0);
  char *steps = ronde__format("%s/%s/steps.jsonl", folder, run);
  for (int i = 0; i < 3000 && access(steps, F_OK); ++i) pause_ns(10000000);
  pause_ns(300000000);
  free(steps);
  kill(child, SIGTERM);
  assert_int_equal(ended(child), 143);
  char *path = ronde__format("%s/%s", folder, run);
  json_t *record = json_file(path, "run.json");
  assert_true(check_whole(run) == (int64_t)real_at(record, "totals.steps"));
  json_decref(record);
  free(path);
}

/* SIGTERM is a request: what Slurm sends before it kills. Also where another checkpoint is being written. */
static void test_the_last_one_at_sigterm(void **state) {
  check_sigterm("run", TRAIN "--epochs 1000000 --out %s/run");
  check_sigterm("often", TRAIN "--epochs 1000000 --checkpoint-every 1 --out %s/often");
}

/* An older checkpoint stays as it was where a newer one cannot be written. */
static void check_unwritable(const char *form, rlim_t limit, const char *reason) {
  int64_t before = check_whole("run");
  assert_true(before > 0);
  assert_int_equal(ended(start(form, limit)), 6);
  assert_true(said("ronde: error: ") && said(reason));
  assert_true(check_whole("run") >= before);
  char *path = ronde__format("%s/run", folder);
  char *inner = ronde__format("ls -A %s/checkpoints | grep -c tmp >/dev/null", path);
  assert_int_not_equal(system(inner), 0);
  free(inner);
  free(path);
}

static void test_a_file_above_the_limit(void **state) {
  assert_int_equal(ended(start(TRAIN "--checkpoint-every 7 --out %s/run", 0)), 0);
  check_unwritable(TRAIN "--epochs 3 --checkpoint-every 7 --resume auto --out %s/run", 100000, "File too large");
}

/* The run's folder is a file system of its own, to be unmounted and freed. */
static char *mount_disk(const char *options) {
  char *disk = ronde__format("%s/run", folder);
  assert_int_equal(mkdir(disk, 0700), 0);
  if (mount("none", disk, "tmpfs", 0, options)) {
    print_message("SKIP: no small file system can be mounted here\n");
    free(disk);
    skip();
  }
  return disk;
}

static void unmount_disk(char *disk) {
  assert_int_equal(umount(disk), 0);
  free(disk);
}

static void test_a_full_disk(void **state) {
  char *disk = mount_disk("size=1600k");
  /* 740 kB each, and the best weights 250 kB: a second one finds no room. */
  assert_int_equal(ended(start(TRAIN "--checkpoint-every 9999 --out %s/run", 0)), 0);
  check_unwritable(TRAIN "--epochs 20 --checkpoint-every 1 --keep 10 --resume auto --out %s/run", 0, "No space left");
  unmount_disk(disk);
}

/* As a disk with errors is mounted again. */
static void test_a_disk_that_turned_read_only(void **state) {
  char *disk = mount_disk("size=8m");
  assert_int_equal(ended(start(TRAIN "--checkpoint-every 7 --out %s/run", 0)), 0);
  assert_int_equal(mount("none", disk, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
  check_unwritable(TRAIN "--epochs 3 --checkpoint-every 7 --resume auto --out %s/run", 0, "Read-only file system");
  unmount_disk(disk);
}

static void test_a_folder_that_cannot_be_written(void **state) {
  char *run = ronde__format("%s/run", folder);
  assert_int_equal(mkdir(run, 0700), 0);
  test_write(run, RONDE__CHECKPOINT_FOLDER, "x", 1);
  assert_int_equal(ended(start(TRAIN "--checkpoint-every 7 --out %s/run", 0)), 6);
  assert_true(said("run/checkpoints: cannot make the folder"));
  free(run);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {TEST(test_killed_at_any_moment),
                                     TEST(test_killed_at_a_slow_disk),
                                     TEST(test_the_second_signal_at_any_moment),
                                     TEST(test_sigterm_to_all_processes_at_any_moment),
                                     TEST(test_the_last_one_at_sigterm),
                                     TEST(test_a_second_run_is_refused_and_the_first_names_it),
                                     TEST(test_a_file_above_the_limit),
                                     TEST(test_a_full_disk),
                                     TEST(test_a_disk_that_turned_read_only),
                                     TEST(test_a_folder_that_cannot_be_written)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

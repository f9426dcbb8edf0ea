/* `ronde data get`: the files of published sets, where they come from and what their SHA-256 is. */
#include "data/remote.h"

#include "data/tar.h"
#include "io/download.h"
#include "io/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the table ------------------------------------------------------------------------------------------------ */

static const char *const cifar10_members[] = {"data_batch_1.bin",
                                              "data_batch_2.bin",
                                              "data_batch_3.bin",
                                              "data_batch_4.bin",
                                              "data_batch_5.bin",
                                              "test_batch.bin",
                                              NULL};
static const char *const cifar100_members[] = {"train.bin", "test.bin", NULL};

static const ronde__remote table[] = {
    {"fashion-mnist",
     "60,000 + 10,000 pictures of clothes, 1x28x28, 10 classes",
     "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
     {{"train-images-idx3-ubyte.gz", 26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
      {"train-labels-idx1-ubyte.gz", 29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
      {"t10k-images-idx3-ubyte.gz", 4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
      {"t10k-labels-idx1-ubyte.gz", 5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}},
     NULL},
    {"mnist",
     "60,000 + 10,000 handwritten digits, 1x28x28, 10 classes",
     "https://ossci-datasets.s3.amazonaws.com/mnist",
     {{"train-images-idx3-ubyte.gz", 9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
      {"train-labels-idx1-ubyte.gz", 28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
      {"t10k-images-idx3-ubyte.gz", 1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
      {"t10k-labels-idx1-ubyte.gz", 4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}},
     NULL},
    {"cifar10",
     "50,000 + 10,000 pictures of things and animals, 3x32x32, 10 classes",
     "https://www.cs.toronto.edu/~kriz",
     {{"cifar-10-binary.tar.gz", 170052171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}},
     cifar10_members},
    {"cifar100",
     "50,000 + 10,000 pictures of things and animals, 3x32x32, 100 classes",
     "https://www.cs.toronto.edu/~kriz",
     {{"cifar-100-binary.tar.gz", 168513733, "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"}},
     cifar100_members},
};

const ronde__remote *ronde__remote_at(int i) { return i < (int)RONDE__COUNT(table) ? &table[i] : NULL; }

/* ---- archives ------------------------------------------------------------------------------------------------- */

/* Finds a member by the last component of its name. No path of the archive is used. */
static const char *remote_find_member(const char *const *members, const ronde__tar_member *member) {
  const char *slash = strrchr(member->name, '/'), *last = slash ? slash + 1 : member->name;
  for (; *members && member->is_file; ++members)
    if (!strcmp(*members, last)) return *members;
  return NULL;
}

static ronde_status remote_copy_member(ronde__stream *stream, const ronde__tar_member *member, const char *path) {
  enum { CHUNK = 1 << 16 };
  ronde__file_out out;
  uint8_t *chunk;
  RONDE__ALLOC(chunk, CHUNK, path);
  ronde_status status = ronde__file_begin(path, &out);
  bool begun = status == RONDE_OK;
  for (int64_t left = member->bytes; left > 0 && status == RONDE_OK; left -= ronde__min(left, CHUNK)) {
    status = ronde__stream_read(stream, chunk, ronde__min(left, CHUNK));
    if (status == RONDE_OK) status = ronde__file_append(&out, chunk, (size_t)ronde__min(left, CHUNK));
  }
  if (status == RONDE_OK) status = ronde__file_commit(&out);
  else if (begun) ronde__file_abandon(&out);
  ronde__free(chunk);
  return status;
}

static ronde_status remote_unpack_members(const ronde__remote *remote, ronde__stream *stream, const char *dir) {
  int n_kept = 0, n_members = 0;
  while (remote->members[n_members]) ++n_members;
  for (;;) {
    ronde__tar_member member;
    bool end;
    RONDE_TRY(ronde__tar_next(stream, &member, &end));
    if (end) break;
    const char *name = remote_find_member(remote->members, &member);
    if (!name) {
      RONDE_TRY(ronde__tar_skip(stream, &member));
      continue;
    }
    char *path = ronde__format("%s/%s", dir, name);
    ronde_status status =
        path ? remote_copy_member(stream, &member, path) : ronde__fail(RONDE_E_MEMORY, "%s: no memory", dir);
    free(path);
    RONDE_TRY(status);
    RONDE_TRY(ronde__tar_skip_padding(stream, &member));
    ++n_kept;
  }
  if (n_kept == n_members) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: %d of the %d files of %s are in it", ronde__stream_name(stream), n_kept,
                     n_members, remote->name);
}

/* The archive is removed once its members are there. */
static ronde_status remote_unpack(const ronde__remote *remote, const char *archive, const char *dir) {
  ronde__stream *stream;
  RONDE_TRY(ronde__stream_open(archive, &stream));
  ronde_status status = remote_unpack_members(remote, stream, dir);
  ronde__stream_close(stream);
  if (status == RONDE_OK) unlink(archive);
  return status;
}

static bool remote_has_members(const ronde__remote *remote, const char *dir) {
  bool all = remote->members != NULL;
  for (const char *const *m = remote->members; all && *m; ++m) {
    char *path = ronde__format("%s/%s", dir, *m);
    all = path && !access(path, F_OK);
    free(path);
  }
  return all;
}

/* ---- getting -------------------------------------------------------------------------------------------------- */

typedef struct remote_listener {
  const ronde_data_hooks *hooks;
  const char *file;
} remote_listener;

static void remote_on_progress(void *user, int64_t done, int64_t total) {
  const remote_listener *l = user;
  if (l->hooks && l->hooks->progress) l->hooks->progress(l->hooks->user, l->file, done, total);
}

static bool remote_is_cancelled(void *user) {
  const remote_listener *l = user;
  return l->hooks && l->hooks->cancel && l->hooks->cancel(l->hooks->user);
}

static ronde_status remote_get_file(const ronde__remote_file *file, const char *url, const char *path,
                                    const ronde_data_hooks *hooks, bool *there_out) {
  remote_listener l = {hooks, file->name};
  RONDE_TRY(ronde__download_check(path, file->bytes, file->sha256, there_out));
  if (*there_out) return RONDE_OK;
  const ronde__download what = {url, path, file->bytes, file->sha256, remote_on_progress, remote_is_cancelled, &l};
  return ronde__download_run(&what);
}

static ronde_status remote_get_one(const ronde__remote *remote, const ronde__remote_file *file, const char *from,
                                   const char *dir, const ronde_data_hooks *hooks, json_t *files) {
  size_t n = strlen(from);
  while (n > 0 && from[n - 1] == '/') --n;
  char *url = ronde__format("%.*s/%s", (int)n, from, file->name), *path = ronde__format("%s/%s", dir, file->name);
  bool there = remote_has_members(remote, dir);
  ronde_status status = url && path ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "%s: no memory", dir);
  if (status == RONDE_OK && !there) {
    status = remote_get_file(file, url, path, hooks, &there);
    if (status == RONDE_OK && remote->members) status = remote_unpack(remote, path, dir);
  }
  if (status == RONDE_OK &&
      json_array_append_new(files, json_pack("{s:s, s:I, s:s, s:b}", "file", file->name, "bytes",
                                             (json_int_t)file->bytes, "sha256", file->sha256, "was_there", there)))
    status = ronde__fail(RONDE_E_MEMORY, "%s: no memory", dir);
  free(url);
  free(path);
  return status;
}

ronde_status ronde__remote_get(const ronde__remote *remote, const char *from, const char *dir,
                               const ronde_data_hooks *hooks, json_t *files) {
  RONDE_TRY(ronde__folder_make(dir));
  for (int i = 0; i < RONDE__REMOTE_FILES && remote->files[i].name; ++i)
    RONDE_TRY(remote_get_one(remote, &remote->files[i], from ? from : remote->url, dir, hooks, files));
  return RONDE_OK;
}

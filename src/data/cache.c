/* The decode-once cache: a file per set, named after its sources' paths, sizes and times, mapped read-only and
 * shared by all processes of the host. It is written under another name and renamed, so that it is whole or absent,
 * whoever else does the same at the same time. Until then its maker holds a lock on it, which tells a draft under
 * construction from one that a killed process left. Nobody writes it again: it is read-only, and whoever maps it
 * holds a lease on it. */
#include "data/store.h"

#include "data/bpe.h"
#include "data/columns.h"
#include "io/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define VERSION 8
#define FRONT_BYTES 4096 /* the header's; then images and labels */
#define DRAFT_S 60       /* a draft younger than this may not have been locked yet */

static const char magic[8] = "RONDE\1\r\n";
static const bool both[2] = {true, true};

typedef struct cache_header {
  char magic[8];
  uint64_t version;
  uint64_t key[2];
  uint64_t checksum; /* XXH3 of the whole file, this field taken as zero */
  ronde__facts facts;
  char sha256[2][65], end[6];
} cache_header;
_Static_assert(sizeof(cache_header) <= FRONT_BYTES, "the cache's header fits in its front");

/* ---- names ------------------------------------------------------------------------------------------------------ */

static bool cache_key_add_file(XXH3_state_t *state, const char *path) {
  struct stat st;
  char *real = realpath(path, NULL);
  bool ok = real && !stat(real, &st);
  if (ok) {
    const int64_t facts[] = {st.st_size,        st.st_mtim.tv_sec,  st.st_mtim.tv_nsec,
                             st.st_ctim.tv_sec, st.st_ctim.tv_nsec, (int64_t)strlen(real)};
    XXH3_128bits_update(state, facts, sizeof facts);
    XXH3_128bits_update(state, real, strlen(real));
  }
  free(real);
  return ok;
}

static void cache_key_add_text(XXH3_state_t *state, const char *text) {
  XXH3_128bits_update(state, text ? text : "", text ? strlen(text) + 1 : 0);
}

/* All that decides how a table is read. */
static bool cache_key_add_columns(XXH3_state_t *state, const ronde__columns *columns) {
  if (!columns) return true;
  char *known = ronde__columns_text(columns, false);
  const int64_t choices[] = {columns->wanted != NULL, columns->ignored != NULL, columns->are_values,
                             columns->has_inputs, columns->has_targets};
  XXH3_128bits_update(state, choices, sizeof choices);
  cache_key_add_text(state, columns->wanted);
  cache_key_add_text(state, columns->ignored);
  cache_key_add_text(state, known);
  free(known);
  return known;
}

static bool cache_key_add_vocabulary(XXH3_state_t *state, const ronde__bpe *bpe) {
  if (!bpe) return true;
  char *merges = ronde__bpe_text(bpe);
  cache_key_add_text(state, merges);
  free(merges);
  return merges;
}

static ronde_status cache_key_make(const ronde__set *set, uint64_t key[2]) {
  XXH3_state_t *state = XXH3_createState();
  if (!state) return ronde__fail(RONDE_E_MEMORY, "%s: no memory", set->name);
  XXH3_128bits_reset(state);
  const int64_t version = VERSION;
  XXH3_128bits_update(state, &version, sizeof version);
  XXH3_128bits_update(state, set->name, strlen(set->name) + 1);
  XXH3_128bits_update(state, &set->seed, sizeof set->seed);
  const int64_t choices[] = {set->resize[0], set->resize[1], set->skip_bad, set->files[0].n,
                             set->layout,    set->window,    set->stride};
  XXH3_128bits_update(state, choices, sizeof choices);
  ronde_status status = RONDE_OK;
  if (!cache_key_add_columns(state, set->columns) || !cache_key_add_vocabulary(state, set->bpe))
    status = ronde__fail(RONDE_E_MEMORY, "%s: no memory", set->name);
  for (int i = 0; i < 4 && status == RONDE_OK; ++i) {
    const char *path = i < 2 ? set->x_path[i] : set->y_path[i - 2];
    if (path && !cache_key_add_file(state, path))
      status = ronde__fail(RONDE_E_INPUT, "%s: cannot open: %s", path, strerror(errno));
  }
  for (int split = 0; split < 2; ++split)
    for (int64_t i = 0; i < set->files[split].n && status == RONDE_OK; ++i)
      if (!cache_key_add_file(state, set->files[split].path[i]))
        status = ronde__fail(RONDE_E_INPUT, "%s: cannot open: %s", set->files[split].path[i], strerror(errno));
  XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  key[0] = hash.high64;
  key[1] = hash.low64;
  return status;
}

/* NULL where no variable names a folder. */
static char *cache_folder(void) {
  const char *own = getenv("RONDE_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (!ronde__is_empty(own)) return ronde__strdup(own);
  if (!ronde__is_empty(xdg)) return ronde__format("%s/ronde", xdg);
  return ronde__is_empty(home) ? NULL : ronde__format("%s/.cache/ronde", home);
}

static void make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(path, 0777);
    *slash = '/';
  }
  mkdir(path, 0777);
}

static char *cache_path(const char *folder, const char *set_name, const uint64_t key[2]) {
  size_t word = strcspn(set_name, ":/");
  return ronde__format("%s/%.*s-%016llx%016llx.cache", folder, (int)word, set_name, (unsigned long long)key[0],
                       (unsigned long long)key[1]);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static uint64_t cache_checksum(const char *base, size_t bytes) {
  cache_header h;
  memcpy(&h, base, sizeof h);
  h.checksum = 0;
  uint64_t front = XXH3_64bits(&h, sizeof h);
  return XXH3_64bits_withSeed(base + sizeof h, bytes - sizeof h, front);
}

/* NULL, or what is wrong with a mapped cache file. */
static const char *cache_find_damage(const char *base, size_t bytes, const uint64_t key[2],
                                     ronde__store_layout *layout_out) {
  cache_header h;
  if (bytes < FRONT_BYTES) return "it is too short";
  memcpy(&h, base, sizeof h);
  if (memcmp(h.magic, magic, sizeof magic)) return "it is not a cache file";
  if (h.version != VERSION) return "it was written by another version of Ronde";
  if (memcmp(h.key, key, sizeof h.key)) return "it was made from other files";
  if (!ronde__store_layout_make(&h.facts, FRONT_BYTES, both, layout_out) || (size_t)layout_out->bytes != bytes)
    return "its size is wrong";
  if (h.sha256[0][64] || h.sha256[1][64] || h.checksum != cache_checksum(base, bytes)) return "its checksum is wrong";
  return NULL;
}

static void cache_store(ronde__store *store, const ronde__store_layout *layout, void *base, size_t bytes,
                        ronde__lease *lease) {
  cache_header h;
  memcpy(&h, base, sizeof h);
  *store = (ronde__store){.facts = h.facts, .base = base, .bytes = bytes, .lease = lease};
  memcpy(store->sha256, h.sha256, sizeof store->sha256);
  ronde__store_point(store, layout, both);
}

static bool cache_map(const char *path, const uint64_t key[2], ronde__store *store_out) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat st;
  void *base = MAP_FAILED;
  ronde__lease *lease = ronde__lease_take(fd); /* before its size is looked at */
  if (lease && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0)
    base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
  ronde__store_layout layout;
  const char *damage =
      base == MAP_FAILED ? "it cannot be mapped" : cache_find_damage(base, (size_t)st.st_size, key, &layout);
  if (damage) {
    ronde__log(RONDE_LOG_WARNING, "%s: the cache is not used: %s; the files are decoded again", path, damage);
    if (base != MAP_FAILED) munmap(base, (size_t)st.st_size);
    ronde__lease_drop(lease);
    return false;
  }
  cache_store(store_out, &layout, base, (size_t)st.st_size, lease);
  return true;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* A file under construction, mapped. */
typedef struct draft {
  char *path;
  int fd;
  char *base;
  size_t bytes;
} draft;

static void draft_discard(draft *d) {
  if (d->base) munmap(d->base, d->bytes);
  if (d->fd >= 0) close(d->fd);
  if (d->path) unlink(d->path);
  free(d->path);
}

/* NAME.cache.XXXXXX */
static bool is_draft(const char *name) {
  size_t n = strlen(name);
  return n > 13 && !strncmp(name + n - 13, ".cache.", 7) && !strpbrk(name + n - 6, "./-");
}

/* Removes drafts whose makers have died. */
static void sweep_drafts(const char *folder) {
  DIR *dir = opendir(folder);
  if (!dir) return;
  for (struct dirent *entry; (entry = readdir(dir));) {
    struct stat st;
    if (!is_draft(entry->d_name)) continue;
    int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) continue;
    bool old = !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_mtim.tv_sec + DRAFT_S < time(NULL);
    if (old && flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(dirfd(dir), entry->d_name, 0);
    close(fd);
  }
  closedir(dir);
}

/* Returns 0, or the errno. The space is reserved, because on a full disk touching the mapping would kill the
 * process. */
static int draft_open(const char *final_path, int64_t bytes, draft *draft_out) {
  draft d = {.path = ronde__format("%s.XXXXXX", final_path), .bytes = (size_t)bytes};
  if (!d.path) return ENOMEM;
  d.fd = mkostemp(d.path, O_CLOEXEC);
  if (d.fd < 0) {
    int error = errno;
    free(d.path);
    return error;
  }
  flock(d.fd, LOCK_EX | LOCK_NB); /* where the file system has no locks, nobody removes it */
  int error = posix_fallocate(d.fd, 0, bytes);
  if (!error) {
    void *base = mmap(NULL, d.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, d.fd, 0);
    if (base == MAP_FAILED) error = errno;
    else d.base = base;
  }
  if (error) draft_discard(&d);
  else *draft_out = d;
  return error;
}

/* Makes the draft read-only and returns a descriptor for reading, or -1 and errno: the kernel grants no lease on a
 * file that is open for writing. */
static int draft_seal(draft *d) {
  fchmod(d->fd, 0400); /* where the file system has no modes, nothing is lost */
  if (fsync(d->fd)) return -1;
  int fd = open(d->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  munmap(d->base, d->bytes);
  close(d->fd);
  d->base = NULL;
  d->fd = -1;
  return fd;
}

/* Gives the draft its name and maps it for reading. Returns 0, or the errno; then the draft is still there. */
static int draft_publish(draft *d, const char *final_path, void **base_out, ronde__lease **lease_out) {
  int fd = draft_seal(d);
  if (fd < 0) return errno;
  void *base = mmap(NULL, d->bytes, PROT_READ, MAP_SHARED, fd, 0);
  int error = base == MAP_FAILED || rename(d->path, final_path) ? errno : 0;
  ronde__lease *lease = error ? NULL : ronde__lease_take(fd);
  if (error) close(fd);
  else if (!lease) error = ENOMEM;
  if (error) {
    if (base != MAP_FAILED) munmap(base, d->bytes);
    return error;
  }
  ronde__file_sync_folder(final_path);
  free(d->path);
  *base_out = base;
  *lease_out = lease;
  return 0;
}

static ronde_status draft_fill(const ronde__set *set, const ronde__facts *facts, const ronde__store_layout *layout,
                               const uint64_t key[2], draft *d) {
  cache_header h = {.version = VERSION, .key = {key[0], key[1]}, .facts = *facts};
  memcpy(h.magic, magic, sizeof magic);
  RONDE_TRY(ronde__store_fill(set, layout, both, true, d->base, &h.facts, h.sha256));
  memcpy(d->base, &h, sizeof h);
  h.checksum = cache_checksum(d->base, d->bytes);
  memcpy(d->base, &h, sizeof h);
  return RONDE_OK;
}

/* Decodes into a new cache file. Where that cannot be written the status is RONDE_OK and *error_out the errno. */
static ronde_status cache_write_new(const ronde__set *set, const ronde__facts *facts, const char *path,
                                    const uint64_t key[2], ronde__store *store_out, int *error_out) {
  draft d;
  ronde__store_layout layout;
  if (!ronde__store_layout_make(facts, FRONT_BYTES, both, &layout)) {
    *error_out = EFBIG;
    return RONDE_OK;
  }
  *error_out = draft_open(path, layout.bytes, &d);
  if (*error_out) return RONDE_OK;
  ronde_status status = draft_fill(set, facts, &layout, key, &d);
  if (status == RONDE_OK) {
    void *base = NULL;
    ronde__lease *lease = NULL;
    *error_out = draft_publish(&d, path, &base, &lease);
    if (!*error_out) {
      cache_store(store_out, &layout, base, d.bytes, lease);
      return RONDE_OK;
    }
  }
  draft_discard(&d);
  return status;
}

static ronde_status cache_open_in(const ronde__set *set, char *folder, const char *path, const uint64_t key[2],
                                  ronde__store *store_out) {
  if (folder) sweep_drafts(folder);
  if (path && cache_map(path, key, store_out)) return RONDE_OK;
  ronde__facts facts;
  RONDE_TRY(set->kind->scan(set, &facts));
  int error = ENOENT;
  if (path) {
    make_folders(folder);
    RONDE_TRY(cache_write_new(set, &facts, path, key, store_out, &error));
    if (!error) return RONDE_OK;
  }
  ronde__log(RONDE_LOG_WARNING, "%s: the cache cannot be written: %s; this process keeps a copy of its own",
             folder ? folder : "no HOME, XDG_CACHE_HOME or RONDE_CACHE_DIR", strerror(error));
  return ronde__store_decode(set, &facts, both, true, store_out);
}

ronde_status ronde__store_open_cached(const ronde__set *set, ronde__store *store_out) {
  uint64_t key[2];
  RONDE_TRY(cache_key_make(set, key));
  char *folder = cache_folder();
  char *path = folder ? cache_path(folder, set->name, key) : NULL;
  ronde_status status = cache_open_in(set, folder, path, key, store_out);
  free(path);
  free(folder);
  return status;
}

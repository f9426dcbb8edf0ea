/* Downloads by libcurl: checked by SHA-256, continued where they broke off, renamed when they are whole. */
#include "io/download.h"

#include "io/file.h"
#include "io/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- checking ------------------------------------------------------------------------------------------------- */

static ronde_status download_hash(int fd, const char *path, char hex[RONDE__SHA256_HEX]) {
  enum { CHUNK = 1 << 18 };
  ronde__sha256 sha;
  uint8_t *chunk;
  RONDE__ALLOC(chunk, CHUNK, path);
  ronde_status status = ronde__sha256_init(&sha);
  if (status != RONDE_OK) {
    ronde__free(chunk);
    return status;
  }
  ssize_t n;
  while ((n = read(fd, chunk, CHUNK)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0) ronde__sha256_update(&sha, chunk, (size_t)n);
  if (n < 0) status = ronde__fail(RONDE_E_INPUT, "%s: cannot read: %s", path, strerror(errno));
  ronde_status finished = ronde__sha256_final(&sha, status == RONDE_OK ? hex : NULL);
  ronde__free(chunk);
  return status == RONDE_OK ? finished : status;
}

ronde_status ronde__download_check(const char *path, int64_t bytes, const char *sha256, bool *same_out) {
  struct stat st;
  char hex[RONDE__SHA256_HEX];
  *same_out = false;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return RONDE_OK;
  ronde_status status = RONDE_OK;
  if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size == bytes) {
    status = download_hash(fd, path, hex);
    *same_out = status == RONDE_OK && !strcmp(hex, sha256);
  }
  close(fd);
  return status;
}

#ifdef RONDE_HAVE_CURL

#include <curl/curl.h>

#define TRIES_MAX 20 /* each must bring something */
#define CONNECT_S 30L
#define STALLED_S 60L /* without a byte: the connection is given up */
#define REDIRECTS_MAX 10L

bool ronde__download_supported(void) { return true; }

typedef struct download_transfer {
  const ronde__download *what;
  char *part; /* path */
  int fd;
  int64_t have; /* bytes in part */
  CURL *curl;
  ronde_status status;
} download_transfer;

/* ---- one try -------------------------------------------------------------------------------------------------- */

static size_t download_take(char *data, size_t size, size_t n, void *user) {
  download_transfer *t = user;
  size_t bytes = size * n;
  if (t->have + (int64_t)bytes > t->what->bytes) {
    t->status =
        ronde__fail(RONDE_E_INPUT, "%s: longer than the expected %lld bytes", t->what->url, (long long)t->what->bytes);
    return 0;
  }
  for (size_t done = 0; done < bytes;) {
    ssize_t written = write(t->fd, data + done, bytes - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      t->status = ronde__fail(RONDE_E_WRITE, "%s: cannot write: %s", t->part, strerror(errno));
      return 0;
    }
    done += (size_t)written;
    t->have += written;
  }
  return bytes;
}

static int download_watch(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now) {
  download_transfer *t = user;
  if (t->what->progress) t->what->progress(t->what->user, t->have, t->what->bytes);
  if (!t->what->cancel || !t->what->cancel(t->what->user)) return 0;
  t->status = RONDE_E_CANCELLED;
  return 1;
}

static void download_set_up(download_transfer *t, char error[CURL_ERROR_SIZE]) {
  CURL *c = t->curl;
  curl_easy_setopt(c, CURLOPT_URL, t->what->url);
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_USERAGENT, "ronde/" RONDE_VERSION);
  curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(c, CURLOPT_MAXREDIRS, REDIRECTS_MAX);
  curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, STALLED_S);
  curl_easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)t->have);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, download_take);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
  curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, download_watch);
  curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
  curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, error);
}

/* A server without ranges must send the whole file again. */
static ronde_status download_start_anew(download_transfer *t) {
  t->have = 0;
  if (ftruncate(t->fd, 0) || lseek(t->fd, 0, SEEK_SET))
    return ronde__fail(RONDE_E_WRITE, "%s: cannot write: %s", t->part, strerror(errno));
  return RONDE_OK;
}

static bool download_was_cut(CURLcode code) {
  return code == CURLE_OK || code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING ||
         code == CURLE_OPERATION_TIMEDOUT || code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM;
}

/* *again_out: the connection broke off, but brought something. */
static ronde_status download_try(download_transfer *t, bool *again_out) {
  char error[CURL_ERROR_SIZE] = "";
  int64_t before = t->have;
  long code = 0;
  *again_out = false;
  t->curl = curl_easy_init();
  if (!t->curl) return ronde__fail(RONDE_E_MEMORY, "%s: no memory", t->what->url);
  download_set_up(t, error);
  CURLcode result = curl_easy_perform(t->curl);
  curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
  curl_easy_cleanup(t->curl);
  if (t->status != RONDE_OK) return t->status;
  if (t->have == t->what->bytes) return RONDE_OK;
  if (result == CURLE_RANGE_ERROR && before > 0) {
    *again_out = true;
    return download_start_anew(t);
  }
  const char *reason = result == CURLE_OK ? "the file is shorter than expected" : curl_easy_strerror(result);
  if (*error) reason = error;
  if (code == 416) t->have = 0; /* it has no such range: the part is of another file */
  if (result == CURLE_HTTP_RETURNED_ERROR)
    return ronde__fail(RONDE_E_INPUT, "%s: the server answered %ld", t->what->url, code);
  *again_out = download_was_cut(result) && t->have > before;
  if (*again_out) {
    ronde__log(RONDE_LOG_WARNING, "%s: the connection broke at %lld of %lld bytes (%s); continuing from there",
               t->what->url, (long long)t->have, (long long)t->what->bytes, reason);
    return RONDE_OK;
  }
  if (t->have)
    return ronde__fail(RONDE_E_INPUT, "%s: %s; the next try continues from %lld of %lld bytes in %s", t->what->url,
                       reason, (long long)t->have, (long long)t->what->bytes, t->part);
  return ronde__fail(RONDE_E_INPUT, "%s: %s", t->what->url, reason);
}

/* ---- the file ------------------------------------------------------------------------------------------------- */

static ronde_status download_open_partial(download_transfer *t) {
  struct stat st;
  t->fd = open(t->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (t->fd < 0 || fstat(t->fd, &st))
    return ronde__fail(RONDE_E_WRITE, "%s: cannot write: %s", t->part, strerror(errno));
  if (!S_ISREG(st.st_mode)) return ronde__fail(RONDE_E_WRITE, "%s: not a regular file", t->part);
  if (flock(t->fd, LOCK_EX | LOCK_NB))
    return ronde__fail(RONDE_E_WRITE, "%s: another process is downloading it", t->part);
  t->have = st.st_size;
  if (t->have > t->what->bytes) t->have = 0; /* it is part of something else */
  if (ftruncate(t->fd, t->have) || lseek(t->fd, t->have, SEEK_SET) < 0)
    return ronde__fail(RONDE_E_WRITE, "%s: cannot write: %s", t->part, strerror(errno));
  return RONDE_OK;
}

static ronde_status download_publish(download_transfer *t) {
  char hex[RONDE__SHA256_HEX];
  if (lseek(t->fd, 0, SEEK_SET) < 0)
    return ronde__fail(RONDE_E_WRITE, "%s: cannot read back: %s", t->part, strerror(errno));
  RONDE_TRY(download_hash(t->fd, t->part, hex));
  if (strcmp(hex, t->what->sha256)) {
    unlink(t->part);
    return ronde__fail(RONDE_E_INPUT, "%s: its SHA-256 is %s, but should be %s; it is not kept", t->what->url, hex,
                       t->what->sha256);
  }
  if (fsync(t->fd) || rename(t->part, t->what->path))
    return ronde__fail(RONDE_E_WRITE, "%s: cannot write: %s", t->what->path, strerror(errno));
  ronde__file_sync_folder(t->what->path);
  return RONDE_OK;
}

static ronde_status download_run(download_transfer *t) {
  RONDE_TRY(download_open_partial(t));
  bool again = t->have < t->what->bytes;
  for (int i = 0; again; ++i) {
    RONDE_TRY(download_try(t, &again));
    if (again && i + 1 == TRIES_MAX)
      return ronde__fail(RONDE_E_INPUT,
                         "%s: the connection broke %d times; the next try continues from %lld of %lld bytes in %s",
                         t->what->url, TRIES_MAX, (long long)t->have, (long long)t->what->bytes, t->part);
  }
  return download_publish(t);
}

static void download_start_curl(void) { curl_global_init(CURL_GLOBAL_DEFAULT); }

ronde_status ronde__download_run(const ronde__download *what) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, download_start_curl);
  download_transfer t = {.what = what, .part = ronde__format("%s.part", what->path), .fd = -1};
  if (!t.part) return ronde__fail(RONDE_E_MEMORY, "%s: no memory", what->path);
  ronde_status status = download_run(&t);
  if (status != RONDE_OK && t.fd >= 0 && t.have == 0) unlink(t.part);
  if (t.fd >= 0) close(t.fd);
  free(t.part);
  return status;
}

#else

bool ronde__download_supported(void) { return false; }

ronde_status ronde__download_run(const ronde__download *what) {
  return ronde__fail(RONDE_E_USAGE,
                     "%s: this build cannot download (no libcurl); download it by other means and save it as %s",
                     what->url, what->path);
}

#endif

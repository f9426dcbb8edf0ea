/* The bytes of a file or of memory, decompressed where they are gzip. Source: RFC 1952. */
#include "data/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define CHUNK (64 << 10)

struct ronde__stream {
  char *name;
  int fd; /* -1: memory */
  const uint8_t *memory;
  int64_t stored_bytes; /* of the file or the memory */
  int64_t stored_at;    /* taken from it so far */
  int64_t offset;       /* handed out so far */
  bool gzip;
  bool between_members; /* gzip: at a place where the file may end */
  z_stream z;
  uint8_t *input; /* [CHUNK], gzip only */
};

static ronde_status stream_truncated(const ronde__stream *s, int64_t missing) {
  return ronde__fail(RONDE_E_INPUT, "%s: offset %lld%s: the file ends here, %lld more bytes are needed", s->name,
                     (long long)s->offset, s->gzip ? " of the decompressed data" : "", (long long)missing);
}

/* Takes up to `bytes` stored bytes; fewer only at the end. */
static ronde_status stream_pull(ronde__stream *s, uint8_t *to, int64_t bytes, int64_t *got_out) {
  int64_t got = 0;
  if (s->fd < 0) {
    got = ronde__min(bytes, s->stored_bytes - s->stored_at);
    if (got) memcpy(to, s->memory + s->stored_at, (size_t)got);
  }
  while (s->fd >= 0 && got < bytes) {
    ssize_t n = read(s->fd, to + got, (size_t)ronde__min(bytes - got, INT_MAX));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: cannot read: %s", s->name, (long long)(s->stored_at + got),
                         strerror(errno));
    if (n == 0) break;
    got += n;
  }
  s->stored_at += got;
  *got_out = got;
  return RONDE_OK;
}

static ronde_status stream_gzip_fail(const ronde__stream *s, const char *reason) {
  return ronde__fail(RONDE_E_INPUT, "%s: offset %lld of the compressed data: %s", s->name,
                     (long long)(s->stored_at - s->z.avail_in), reason);
}

/* Makes sure that there is compressed input. *end_out: the file ends, where it may. */
static ronde_status stream_gzip_input(ronde__stream *s, bool *end_out) {
  *end_out = false;
  if (s->z.avail_in == 0) {
    int64_t got;
    RONDE_TRY(stream_pull(s, s->input, CHUNK, &got));
    s->z.next_in = s->input;
    s->z.avail_in = (uInt)got;
  }
  if (s->z.avail_in == 0) {
    if (!s->between_members) return stream_gzip_fail(s, "the file ends within the compressed data");
    *end_out = true;
  } else if (s->between_members) {
    if (s->z.next_in[0] != 0x1f) return stream_gzip_fail(s, "something follows the end of the compressed data");
    inflateReset(&s->z);
    s->between_members = false;
  }
  return RONDE_OK;
}

static ronde_status stream_gzip_take(ronde__stream *s, uint8_t *to, int64_t bytes, int64_t *got_out) {
  int64_t got = 0;
  while (got < bytes) {
    bool end;
    RONDE_TRY(stream_gzip_input(s, &end));
    if (end) break;
    uInt room = (uInt)ronde__min(bytes - got, INT_MAX);
    s->z.next_out = to + got;
    s->z.avail_out = room;
    int result = inflate(&s->z, Z_NO_FLUSH);
    got += room - s->z.avail_out;
    if (result == Z_STREAM_END) s->between_members = true;
    else if (result == Z_MEM_ERROR) return ronde__fail(RONDE_E_MEMORY, "%s: no memory to decompress", s->name);
    else if (result != Z_OK && result != Z_BUF_ERROR)
      return stream_gzip_fail(s, s->z.msg ? s->z.msg : "the gzip data is damaged");
  }
  *got_out = got;
  return RONDE_OK;
}

/* Up to `bytes`; fewer only at the end. */
static ronde_status stream_take(ronde__stream *s, uint8_t *to, int64_t bytes, int64_t *got_out) {
  RONDE_TRY(s->gzip ? stream_gzip_take(s, to, bytes, got_out) : stream_pull(s, to, bytes, got_out));
  s->offset += *got_out;
  return RONDE_OK;
}

static ronde_status stream_detect_gzip(ronde__stream *s) {
  uint8_t magic[2];
  int64_t got;
  RONDE_TRY(stream_pull(s, magic, 2, &got));
  if (got == 2 && magic[0] == 0x1f && magic[1] == 0x8b) {
    RONDE__ALLOC(s->input, CHUNK, s->name);
    if (inflateInit2(&s->z, 15 + 16) != Z_OK)
      return ronde__fail(RONDE_E_MEMORY, "%s: no memory to decompress", s->name);
    s->gzip = true;
  }
  return ronde__stream_rewind(s);
}

static ronde_status stream_open_file(ronde__stream *s, const char *path) {
  /* A pipe that nobody writes would block the open. */
  s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat st;
  if (s->fd < 0 || fstat(s->fd, &st)) return ronde__fail(RONDE_E_INPUT, "%s: cannot open: %s", path, strerror(errno));
  if (!S_ISREG(st.st_mode)) return ronde__fail(RONDE_E_INPUT, "%s: not a regular file", path);
  s->stored_bytes = st.st_size;
  return RONDE_OK;
}

static ronde_status stream_create(const char *name, ronde__stream **stream_out) {
  ronde__stream *s;
  RONDE__ALLOC(s, sizeof *s, name);
  s->fd = -1;
  s->name = ronde__strdup(name);
  if (!s->name) {
    ronde__free(s);
    return ronde__fail(RONDE_E_MEMORY, "%s: no memory", name);
  }
  *stream_out = s;
  return RONDE_OK;
}

ronde_status ronde__stream_open(const char *path, ronde__stream **stream_out) {
  ronde__stream *s;
  RONDE_TRY(stream_create(path, &s));
  ronde_status status = stream_open_file(s, path);
  if (status == RONDE_OK) status = stream_detect_gzip(s);
  if (status == RONDE_OK) *stream_out = s;
  else ronde__stream_close(s);
  return status;
}

ronde_status ronde__stream_open_memory(const char *name, const void *data, size_t bytes, ronde__stream **stream_out) {
  ronde__stream *s;
  RONDE_TRY(stream_create(name, &s));
  s->memory = data;
  s->stored_bytes = (int64_t)bytes;
  ronde_status status = stream_detect_gzip(s);
  if (status == RONDE_OK) *stream_out = s;
  else ronde__stream_close(s);
  return status;
}

void ronde__stream_close(ronde__stream *s) {
  if (!s) return;
  if (s->gzip) inflateEnd(&s->z);
  if (s->fd >= 0) close(s->fd);
  ronde__free(s->input);
  free(s->name);
  ronde__free(s);
}

const char *ronde__stream_name(const ronde__stream *s) { return s->name; }

int64_t ronde__stream_offset(const ronde__stream *s) { return s->offset; }

ronde_status ronde__stream_rewind(ronde__stream *s) {
  if (s->fd >= 0 && lseek(s->fd, 0, SEEK_SET) < 0)
    return ronde__fail(RONDE_E_INPUT, "%s: cannot go back to the start: %s", s->name, strerror(errno));
  s->stored_at = 0;
  s->offset = 0;
  if (s->gzip) {
    inflateReset(&s->z);
    s->z.avail_in = 0;
    s->between_members = false;
  }
  return RONDE_OK;
}

ronde_status ronde__stream_measure(ronde__stream *s, int64_t limit, int64_t *bytes_out) {
  int64_t bytes = s->stored_bytes;
  if (s->gzip) {
    RONDE_TRY(ronde__stream_rewind(s));
    uint8_t sink[16 << 10];
    int64_t got, wanted;
    do {
      wanted = ronde__min((int64_t)sizeof sink, limit - s->offset);
      RONDE_TRY(stream_take(s, sink, wanted, &got));
    } while (got == wanted && s->offset < limit);
    bytes = s->offset;
  }
  RONDE_TRY(ronde__stream_rewind(s));
  *bytes_out = bytes;
  return RONDE_OK;
}

ronde_status ronde__stream_read(ronde__stream *s, void *to, int64_t bytes) {
  int64_t got;
  RONDE_TRY(stream_take(s, to, bytes, &got));
  return got == bytes ? RONDE_OK : stream_truncated(s, bytes - got);
}

ronde_status ronde__stream_some(ronde__stream *s, void *to, int64_t bytes, int64_t *got_out) {
  return stream_take(s, to, bytes, got_out);
}

ronde_status ronde__stream_end(ronde__stream *s) {
  uint8_t byte;
  int64_t got;
  RONDE_TRY(stream_take(s, &byte, 1, &got));
  if (got)
    return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: the file is longer than its header says", s->name,
                       (long long)s->offset - 1);
  return RONDE_OK;
}

uint32_t ronde__crc32(const void *data, size_t bytes) { return (uint32_t)crc32_z(0, data, bytes); }

ronde_status ronde__stream_load(const char *path, int64_t limit, const char *what, uint8_t **data_out,
                                size_t *bytes_out) {
  ronde__stream *stream;
  RONDE_TRY(ronde__stream_open(path, &stream));
  int64_t bytes;
  uint8_t *data = NULL;
  ronde_status status = ronde__stream_measure(stream, limit + 1, &bytes);
  if (status == RONDE_OK && bytes > limit)
    status = ronde__fail(RONDE_E_INPUT, "%s: the file is larger than %lld bytes, the limit for %s", path,
                         (long long)limit, what);
  if (status == RONDE_OK && !(data = ronde__alloc((size_t)bytes + 1)))
    status = ronde__fail(RONDE_E_MEMORY, "%s: no memory for %lld bytes", path, (long long)bytes);
  if (status == RONDE_OK) status = ronde__stream_read(stream, data, bytes);
  ronde__stream_close(stream);
  if (status != RONDE_OK) {
    ronde__free(data);
    return status;
  }
  *data_out = data;
  *bytes_out = (size_t)bytes;
  return RONDE_OK;
}

/* Files in a tar archive (ustar), over any stream. */
#ifndef RONDE_TAR_H
#define RONDE_TAR_H

#include "data/stream.h"

#define RONDE__TAR_NAME_BYTES 260

typedef struct ronde__tar_member {
  char name[RONDE__TAR_NAME_BYTES]; /* as the archive has it: not to be used as a path */
  int64_t bytes;
  bool is_file;
} ronde__tar_member;

/* The next header; the stream then stands at the member's content. *end_out: there is none. */
ronde_status ronde__tar_next(ronde__stream *stream, ronde__tar_member *member_out, bool *end_out);
/* Skips the padding after a content that was read, or the whole content and its padding. */
ronde_status ronde__tar_skip_padding(ronde__stream *stream, const ronde__tar_member *member);
ronde_status ronde__tar_skip(ronde__stream *stream, const ronde__tar_member *member);

#endif

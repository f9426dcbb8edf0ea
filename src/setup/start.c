/* Where a training starts: anew, or from a checkpoint. Where ranks are processes, each perhaps with a disk of its own,
 * rank 0 alone looks for one, and the others follow: what the file says of itself travels at once, the state when all
 * have a network for it. So no other rank needs a file, nor can it go on from another place. Before it looks, rank 0 waits
 * until the run has ended that goes on in this one, if there is such a run (hooks.await). */
#include "setup/setup.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER_BYTES = 100000008, PIECE_BYTES = 1 << 20 };

/* What rank 0 has found. */
typedef struct finding {
  int64_t status;
  uint64_t header_bytes, file_bytes;                    /* 0: no checkpoint */
  char path[PATH_MAX], folder[PATH_MAX], out[PATH_MAX]; /* "": none */
} finding;

/* In pieces, each of which is waited for by itself. */
ronde_status ronde__start_broadcast(ronde__transport *transport, void *data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += PIECE_BYTES)
    RONDE_TRY(ronde__broadcast_tree(transport, RONDE__TAG_START, 0, (char *)data + at,
                                    ronde__min(bytes - at, (size_t)PIECE_BYTES)));
  return RONDE_OK;
}

static void set_path(char to[PATH_MAX], const char *from) { snprintf(to, PATH_MAX, "%s", from ? from : ""); }

/* Rank 0's part. */
static void start_tell(ronde__job *job, finding *f) {
  ronde_hooks *hooks = &job->hooks;
  f->status = hooks->await ? hooks->await(hooks->user, &hooks->restarts) : RONDE_OK;
  if (f->status == RONDE_OK) f->status = ronde__resume_find(job->config, &job->resume);
  set_path(f->out, job->options->out);
  if (!job->resume) return;
  f->header_bytes = job->resume->file->header_bytes;
  f->file_bytes = job->resume->file->bytes;
  set_path(f->path, job->resume->path);
  set_path(f->folder, job->resume->folder);
}

/* Another rank's. What a process sent is looked at before it is used. */
static ronde_status check_finding(finding *f) {
  f->path[PATH_MAX - 1] = f->folder[PATH_MAX - 1] = f->out[PATH_MAX - 1] = 0;
  if (f->status >= RONDE_OK && f->status <= RONDE_E_CANCELLED && f->header_bytes <= MAX_HEADER_BYTES) return RONDE_OK;
  return ronde__fail(RONDE_E_INTERNAL, "rank 0 sent an impossible description of a checkpoint");
}

static ronde_status follow(ronde__job *job, const finding *f) {
  void *header;
  RONDE__ALLOC(header, f->header_bytes, "checkpoint");
  ronde_status status = ronde__start_broadcast(job->mpi, header, f->header_bytes);
  if (status == RONDE_OK)
    return ronde__resume_follow(f->path, f->folder, header, f->header_bytes, f->file_bytes, &job->resume);
  ronde__free(header);
  return status;
}

static ronde_status find_together(ronde__job *job, finding *f) {
  bool leads = job->mpi->rank == 0;
  if (leads) start_tell(job, f);
  RONDE_TRY(ronde__broadcast_tree(job->mpi, RONDE__TAG_START, 0, f, sizeof *f));
  if (!leads) RONDE_TRY(check_finding(f));
  if (f->status != RONDE_OK) {
    ronde__leave_together(job->mpi);
    return (ronde_status)f->status;
  }
  /* One folder, rank 0's: what is done where there is one, all ranks do. */
  if (!leads && *f->out) RONDE_TRY(ronde_config_set(job->config, "out", f->out));
  if (f->header_bytes == 0) return RONDE_OK;
  /* The pages of a mapped file cannot be written, nor will they. */
  return leads ? ronde__start_broadcast(job->mpi, (void *)job->resume->file->header, f->header_bytes) : follow(job, f);
}

ronde_status ronde__find_start(ronde__job *job) {
  if (!job->mpi) return ronde__resume_find(job->config, &job->resume);
  finding *f;
  RONDE__ALLOC(f, sizeof *f, "checkpoint");
  ronde_status status = find_together(job, f);
  ronde__free(f);
  /* Whoever was awaited had memory too. */
  return status == RONDE_OK && job->hooks.await ? ronde__find_rooms(job) : status;
}

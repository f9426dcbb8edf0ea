/* What every file may use: statuses that are handed on, errors that are logged once, memory, the clock. Includes no
 * other area. */
#ifndef RONDE_BASE_H
#define RONDE_BASE_H

#include <locale.h>
#include <ronde/ronde.h>

#define RONDE__COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RONDE_TRY(expr)                              \
  do {                                               \
    ronde_status try_status_ = (expr);               \
    if (try_status_ != RONDE_OK) return try_status_; \
  } while (0)

/* Logs one line at error level, with the calling thread's rank in front where one is set, and returns status. */
ronde_status ronde__fail(ronde_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ronde__log(ronde_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sets the rank that the calling thread's error lines name; -1: none (the default). */
void ronde__log_set_rank(int rank);
/* While on, errors on the calling thread are logged as warnings, because the caller has something to fall back on. */
void ronde__log_demote(bool on);
/* While on, the calling thread logs nothing, because another one meets the same error and logs it. Returns whether it was
 * on before. */
bool ronde__log_mute(bool on);

/* 64-byte aligned, zeroed memory; NULL if there is none left (the caller logs that, see RONDE__ALLOC). Released by
 * ronde__free. */
void *ronde__alloc(size_t bytes);
void ronde__free(void *p);
/* Assigns, or returns RONDE_E_MEMORY with one line that says how much for what. */
#define RONDE__ALLOC(pointer, bytes, what)                                                                   \
  do {                                                                                                       \
    size_t alloc_bytes_ = (bytes);                                                                           \
    (pointer) = ronde__alloc(alloc_bytes_);                                                                  \
    if (!(pointer)) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for %zu bytes", (what), alloc_bytes_); \
  } while (0)
/* Anonymous pages, zeroed, 2 MiB aligned and advised to be huge where they are large; untouched pages cost nothing. */
void *ronde__pages_map(size_t bytes);
void ronde__pages_unmap(void *p, size_t bytes);

/* A user's text as messages show it: at most 80 bytes, then an ellipsis; no control characters. */
#define RONDE__SHOWN_BYTES 84
const char *ronde__shown(const char *text, char out[RONDE__SHOWN_BYTES]);
#define RONDE__SHOWN(text) ronde__shown((text), (char[RONDE__SHOWN_BYTES]){0}) /* for the enclosing block */
/* "1500", "64K", "1.5G": bytes, in powers of 1024. false: it is no such text. */
bool ronde__bytes_parse(const char *text, int64_t *bytes_out);
/* The number of insertions, deletions and replacements that turn a into b (their first 63 bytes), to suggest a name. */
int ronde__edit_distance(const char *a, const char *b);
/* Whether a text at this distance is likely to be a misspelling of what was meant. */
bool ronde__is_near(const char *meant, int distance);

static inline bool ronde__is_empty(const char *text) { return !text || !*text; }
/* Numbers are read and written in it: an embedder's locale may have a decimal comma. */
locale_t ronde__c_locale(void);
char *ronde__strdup(const char *text); /* NULL for NULL or where there is no memory; free() */
char *ronde__format(const char *format, ...) __attribute__((format(printf, 1, 2))); /* free() */

const char *ronde__git(void);   /* the commit that this was built from, */
const char *ronde__build(void); /* and the version with it */

uint64_t ronde__now_ns(void);        /* monotonic */
uint64_t ronde__cpu_ns(void);        /* of the process, all threads */
uint64_t ronde__thread_cpu_ns(void); /* of the calling thread */
int ronde__cores(void);              /* that this process may use: affinity and cgroup quota; at least 1 */
/* The cores of a CPU quota, rounded up, from a file like /proc/self/cgroup and the tree /sys/fs/cgroup; 0: no limit. */
int ronde__cores_quota(const char *cgroup_file, const char *cgroup_root);
/* CPU seconds that all processes have used on the cores of this one, from a file like /proc/stat; NAN: unknown. */
double ronde__busy_s(const char *stat_file);
double ronde__load(void); /* of the last minute, in cores; 0: unknown */
/* Whether others keep too many cores busy for a measurement. is_load: `others` is a load average. */
bool ronde__host_is_busy(double others, int cores, bool is_load);
int64_t ronde__peak_rss_bytes(void);
int64_t ronde__host_memory_bytes(void); /* -1: the system does not say */
/* The bytes that control groups grant, as ronde__cores_quota; 0: no limit. *group_out: a number of the group whose limit
 * that is, the same for all of its processes. */
int64_t ronde__memory_quota(const char *cgroup_file, const char *cgroup_root, uint64_t *group_out);

/* What limits the memory of this process: limits of the process itself, on what it has mapped, and on what of that is its
 * own data; of all processes of its control group, and of this host, on what lies in memory. */
typedef enum ronde__room_kind {
  RONDE__ROOM_ADDRESSES, /* RLIMIT_AS */
  RONDE__ROOM_DATA,      /* RLIMIT_DATA */
  RONDE__ROOM_GROUP,
  RONDE__ROOM_HOST,
  RONDE__N_ROOMS
} ronde__room_kind;
typedef struct ronde__room {
  int64_t limit[RONDE__N_ROOMS]; /* bytes; 0: none */
  int64_t used[RONDE__N_ROOMS];  /* by this process, now */
  int64_t stack;                 /* that a new thread maps; 0: no limit */
  uint64_t group;                /* which control group's limit it is */
} ronde__room;
void ronde__room_find(ronde__room *room_out);

/* The median of n > 0 numbers without NaN; x is reordered. */
double ronde__median(double *x, int64_t n);

/* Elements that lie one after the other in an array. */
typedef struct ronde__range {
  size_t begin, n;
} ronde__range;
/* The gaps between n ascending ranges, one after the other: what none of them covers of [begin, end). */
typedef struct ronde__gaps {
  const ronde__range *next, *past; /* the ranges still to come */
  size_t at, end;
} ronde__gaps;
ronde__gaps ronde__gaps_of(const ronde__range *ranges, int n, size_t begin, size_t end);
bool ronde__gaps_next(ronde__gaps *gaps, ronde__range *gap_out); /* never empty; false: there is no other */

static inline int64_t ronde__min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ronde__max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ronde__ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t ronde__round_up(int64_t a, int64_t b) { return ronde__ceil_div(a, b) * b; }
/* The first of n elements in shard r of p. Shards are contiguous; the first (n mod p) are one longer. */
static inline int64_t ronde__shard_begin(int64_t n, int64_t r, int64_t p) { return n / p * r + ronde__min(r, n % p); }

#endif

/* Writes and reads signs of life. */
#include "comm/life_wire.h"

#include <string.h>

static const uint8_t magic[4] = {'R', 'N', 'D', 'L'};
enum { VERSION = 1 };

static void put(uint8_t *at, uint64_t value, int n) {
  for (int i = 0; i < n; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *at, int n) {
  uint64_t value = 0;
  for (int i = 0; i < n; i++) value |= (uint64_t)at[i] << 8 * i;
  return value;
}

const char *ronde__life_verdict_text(ronde__life_verdict verdict) {
  static const char *const texts[RONDE__N_LIFE_VERDICTS] = {"it is in order",
                                                            "it is no sign of life of Ronde's",
                                                            "it is of another version of Ronde",
                                                            "it is cut off",
                                                            "it has not this job's key, or was changed on its way",
                                                            "it tells of ranks or states that there are not"};
  return texts[verdict];
}

size_t ronde__life_write(const ronde__life_message *m, const uint8_t key[RONDE__LIFE_KEY], uint8_t *data) {
  size_t n = RONDE__LIFE_HEAD;
  memset(data, 0, RONDE__LIFE_BYTES);
  memcpy(data, magic, sizeof magic);
  data[4] = VERSION;
  put(data + 8, (uint64_t)m->sender, 4);
  put(data + 12, (uint64_t)m->n, 4);
  put(data + 16, m->sequence, 8);
  for (int i = 0; i < m->n; i++, n += RONDE__LIFE_WORD) {
    const ronde__life_word *w = &m->words[i];
    put(data + n, (uint64_t)w->rank, 4);
    data[n + 4] = (uint8_t)w->state;
    data[n + 5] = (uint8_t)w->doing.activity;
    put(data + n + 8, (uint64_t)w->doing.step, 8);
  }
  return ronde__seal(key, RONDE__LIFE_KEY, data, n, data + n) ? n + RONDE__LIFE_MAC : 0;
}

static bool read_word(const uint8_t *at, int n_ranks, ronde__life_word *word) {
  uint64_t rank = get(at, 4), step = get(at + 8, 8);
  if (rank >= (uint64_t)n_ranks || at[4] >= RONDE__LIFE_SILENT || at[5] >= RONDE__N_ACTIVITIES) return false;
  if (get(at + 6, 2) || step > INT64_MAX >> 8) return false;
  *word = (ronde__life_word){(int)rank, (ronde__life_state)at[4], {(ronde__activity)at[5], (int64_t)step}};
  return true;
}

/* The key is asked for in front of all that the message tells. */
ronde__life_verdict ronde__life_read(const uint8_t *data, size_t bytes, const uint8_t key[RONDE__LIFE_KEY], int n_ranks,
                                     ronde__life_message *message_out) {
  ronde__life_message m = {0};
  if (bytes < sizeof magic || memcmp(data, magic, sizeof magic)) return RONDE__LIFE_FOREIGN;
  if (bytes < RONDE__LIFE_HEAD + RONDE__LIFE_MAC) return RONDE__LIFE_TRUNCATED;
  if (data[4] != VERSION) return RONDE__LIFE_VERSION;
  uint64_t n = get(data + 12, 4), sender = get(data + 8, 4);
  if (n > RONDE__LIFE_WORDS || bytes != RONDE__LIFE_HEAD + n * RONDE__LIFE_WORD + RONDE__LIFE_MAC)
    return RONDE__LIFE_TRUNCATED;
  size_t signed_bytes = bytes - RONDE__LIFE_MAC;
  if (!ronde__seal_holds(key, RONDE__LIFE_KEY, data, signed_bytes, data + signed_bytes)) return RONDE__LIFE_KEYLESS;
  if (sender >= (uint64_t)n_ranks || get(data + 5, 3)) return RONDE__LIFE_NONSENSE;
  m.sender = (int)sender;
  m.n = (int)n;
  m.sequence = get(data + 16, 8);
  for (int i = 0; i < m.n; i++)
    if (!read_word(data + RONDE__LIFE_HEAD + (size_t)i * RONDE__LIFE_WORD, n_ranks, &m.words[i]))
      return RONDE__LIFE_NONSENSE;
  *message_out = m;
  return RONDE__LIFE_GOOD;
}

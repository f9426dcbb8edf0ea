/* Reads the hosts of --hosts and --hostfile, and counts the ranks that each is to have. */
#include "hosts.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 1024, MAX_FILE_BYTES = 1 << 20 };

/* Where a word stands, for errors. */
typedef struct place {
  const char *name;
  int line; /* 0: not in a file */
  ronde_status status;
} place;

static ronde_status fail_at_place(const place *p, const char *what, const char *word, size_t length) {
  char line[24] = "";
  if (p->line) snprintf(line, sizeof line, ", line %d", p->line);
  return tool_fail(p->status, "%s%s: %s: '%.*s'", p->name, line, what, (int)(length < 80 ? length : 80), word);
}

/* ssh and mpirun read names too: nothing that means something to them gets through. */
static bool is_name(const char *word, size_t length) {
  if (length == 0 || length >= TOOL_HOST_BYTES || !isalnum((unsigned char)*word)) return false;
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)word[i]) && !strchr("-._", word[i])) return false;
  return true;
}

static ronde_status read_slots(const place *p, const char *digits, size_t length, int *slots_out) {
  int slots = 0;
  for (size_t i = 0; i < length && slots <= MAX_SLOTS; i++)
    slots = isdigit((unsigned char)digits[i]) ? 10 * slots + digits[i] - '0' : MAX_SLOTS + 1;
  if (slots < 1 || slots > MAX_SLOTS) return fail_at_place(p, "slots must be a number from 1 to 1024", digits, length);
  *slots_out = slots;
  return RONDE_OK;
}

static ronde_status add_host(const place *p, tool_hosts *hosts, const char *name, size_t length, int slots) {
  if (!is_name(name, length)) return fail_at_place(p, "not a host's name", name, length);
  for (int i = 0; i < hosts->n; i++) {
    tool_host *known = &hosts->at[i];
    if (strlen(known->name) != length || memcmp(known->name, name, length)) continue;
    known->slots = (known->slots ? known->slots : 1) + (slots ? slots : 1);
    return RONDE_OK;
  }
  if (hosts->n == TOOL_MAX_HOSTS) return tool_fail(p->status, "%s: more than %d hosts", p->name, TOOL_MAX_HOSTS);
  tool_host *one = &hosts->at[hosts->n++];
  memcpy(one->name, name, length);
  one->slots = slots;
  return RONDE_OK;
}

/* "NAME" or "NAME:SLOTS". */
static ronde_status take_word(const place *p, const char *word, size_t length, tool_hosts *hosts) {
  const char *colon = memchr(word, ':', length);
  size_t n = colon ? (size_t)(colon - word) : length;
  int slots = 0;
  ronde_status status = colon ? read_slots(p, colon + 1, length - n - 1, &slots) : RONDE_OK;
  return status ? status : add_host(p, hosts, word, n, slots);
}

/* "NAME [slots=N]", with what stands behind # left out. */
static ronde_status take_host_line(const place *p, const char *line, size_t length, tool_hosts *hosts) {
  static const char blank[] = " \t\r", key[] = "slots=";
  const char *words[3];
  size_t lengths[3];
  int n = 0, slots = 0;
  const char *end = memchr(line, '#', length);
  if (!end) end = line + length;
  for (const char *at = line; at < end;) {
    if (memchr(blank, *at, sizeof blank - 1)) {
      at++;
      continue;
    }
    const char *begin = at;
    while (at < end && !memchr(blank, *at, sizeof blank - 1)) at++;
    if (n == 2) return fail_at_place(p, "unknown word", begin, (size_t)(at - begin));
    words[n] = begin;
    lengths[n++] = (size_t)(at - begin);
  }
  if (n == 0) return RONDE_OK;
  if (n == 1) return take_word(p, words[0], lengths[0], hosts);
  if (lengths[1] < sizeof key || memcmp(words[1], key, sizeof key - 1))
    return fail_at_place(p, "unknown word: only slots=N may follow a host", words[1], lengths[1]);
  ronde_status status = read_slots(p, words[1] + sizeof key - 1, lengths[1] - (sizeof key - 1), &slots);
  return status ? status : add_host(p, hosts, words[0], lengths[0], slots);
}

void tool_hosts_count_slots(tool_hosts *hosts) {
  bool said = false;
  hosts->slots = 0;
  for (int i = 0; i < hosts->n; i++) {
    said |= hosts->at[i].slots > 0;
    hosts->slots += hosts->at[i].slots ? hosts->at[i].slots : 1;
  }
  if (!said) hosts->slots = 0;
}

/* Each part of the text that `separator` ends. */
static ronde_status take_all(place *p, const char *text, char separator, tool_hosts *hosts) {
  ronde_status status = RONDE_OK;
  size_t n_parts = 1;
  for (const char *at = text; *at; at++) n_parts += *at == separator;
  if (n_parts > TOOL_MAX_HOSTS) n_parts = TOOL_MAX_HOSTS;
  *hosts = (tool_hosts){.at = calloc(n_parts, sizeof *hosts->at)};
  if (!hosts->at) return tool_fail(RONDE_E_MEMORY, "no memory for the hosts");
  for (const char *at = text, *end; status == RONDE_OK && at; at = end ? end + 1 : NULL) {
    end = strchr(at, separator);
    size_t length = end ? (size_t)(end - at) : strlen(at);
    p->line += separator == '\n';
    status = separator == '\n' ? take_host_line(p, at, length, hosts) : take_word(p, at, length, hosts);
  }
  if (status == RONDE_OK && hosts->n == 0) status = tool_fail(p->status, "%s: it names no host", p->name);
  tool_hosts_count_slots(hosts);
  if (status != RONDE_OK) tool_hosts_free(hosts);
  return status;
}

ronde_status tool_hosts_parse(const char *name, const char *text, tool_hosts *hosts_out) {
  return take_all(&(place){.name = name, .status = RONDE_E_INPUT}, text, '\n', hosts_out);
}

ronde_status tool_hosts_read(const char *path, tool_hosts *hosts_out) {
  FILE *file = fopen(path, "r");
  if (!file) return tool_fail(RONDE_E_INPUT, "--hostfile %s: %s", path, strerror(errno));
  char *text = malloc(MAX_FILE_BYTES + 1);
  size_t n = text ? fread(text, 1, MAX_FILE_BYTES + 1, file) : 0;
  bool failed = ferror(file);
  fclose(file);
  ronde_status status;
  if (!text) status = tool_fail(RONDE_E_MEMORY, "no memory for the hosts");
  else if (failed) status = tool_fail(RONDE_E_INPUT, "--hostfile %s: cannot be read", path);
  else if (n > MAX_FILE_BYTES || memchr(text, 0, n))
    status = tool_fail(RONDE_E_INPUT, "--hostfile %s: it is not a text file with hosts", path);
  else {
    text[n] = 0;
    status = tool_hosts_parse(path, text, hosts_out);
  }
  free(text);
  return status;
}

ronde_status tool_hosts_get(const tool_call *call, tool_hosts *hosts_out) {
  const char *list = ronde_config_get(call->config, "hosts"), *path = ronde_config_get(call->config, "hostfile");
  *hosts_out = (tool_hosts){0};
  bool has_list = list && *list, has_path = path && *path;
  if (has_list && has_path) return tool_fail(RONDE_E_USAGE, "--hosts and --hostfile: give only one of the two");
  if (has_path) return tool_hosts_read(path, hosts_out);
  if (!has_list) return RONDE_OK;
  return take_all(&(place){.name = "--hosts", .status = RONDE_E_USAGE}, list, ',', hosts_out);
}

bool tool_hosts_place(const tool_hosts *hosts, int n, int *counts_out, int *host_of_out) {
  bool limited = hosts->slots > 0, placed = true;
  int rank = 0;
  for (int i = 0; i < hosts->n; i++) counts_out[i] = 0;
  while (n > 0 && placed) {
    placed = false;
    for (int i = 0; i < hosts->n && n > 0; i++) {
      int slots = hosts->at[i].slots ? hosts->at[i].slots : 1;
      if (limited && counts_out[i] == slots) continue;
      counts_out[i]++;
      if (host_of_out) host_of_out[rank++] = i;
      n--;
      placed = true;
    }
  }
  return n == 0;
}

int tool_hosts_ranks(const tool_hosts *hosts, int n_servers) {
  return hosts->slots ? hosts->slots : hosts->n + n_servers;
}

void tool_hosts_free(tool_hosts *hosts) {
  free(hosts->at);
  *hosts = (tool_hosts){0};
}

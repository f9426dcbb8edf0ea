/* What the machine is and how this process was called. */
#include "base/machine.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* "model name : Intel(R) ..." on x86; ARM has no such line, and its "CPU implementer" is a number. */
static json_t *cpu_model(void) {
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (!file) return json_null();
  json_t *json = NULL;
  char line[512];
  while (!json && fgets(line, sizeof line, file)) {
    char *colon = strchr(line, ':');
    if (!colon || strncmp(line, "model name", 10) != 0) continue;
    char *name = colon + 1 + strspn(colon + 1, " \t");
    name[strcspn(name, "\n")] = '\0';
    json = ronde__json_text(name);
  }
  fclose(file);
  return json ? json : json_null();
}

static json_t *os_text(const struct utsname *names) {
  char *text = ronde__format("%s %s %s", names->sysname, names->release, names->machine);
  json_t *json = ronde__json_text(text);
  free(text);
  return json;
}

json_t *ronde__machine_json(const char *isa) {
  struct utsname names;
  bool named = uname(&names) == 0;
  int64_t bytes = ronde__host_memory_bytes();
  json_t *memory = bytes > 0 ? json_integer((json_int_t)bytes) : json_null();
  return json_pack("{s:[o], s:o, s:i, s:o, s:o, s:o}", "hosts", named ? ronde__json_text(names.nodename) : json_null(),
                   "cpu", cpu_model(), "cores", ronde__cores(), "isa", ronde__json_text(isa), "memory_bytes", memory,
                   "os", named ? os_text(&names) : json_null());
}

json_t *ronde__command_json(void) {
  json_t *command = json_array();
  FILE *file = fopen("/proc/self/cmdline", "re");
  if (!file) return command;
  char *argument = NULL;
  size_t capacity = 0;
  while (getdelim(&argument, &capacity, '\0', file) > 0) {
    json_t *text = *argument ? ronde__json_text(argument) : json_string("");
    if (json_array_append_new(command, text)) break;
  }
  free(argument);
  fclose(file);
  return command;
}

/* The table of strategies: which there are, and which of them understands an option. */
#include "strategy/strategy.h"

#include <stdio.h>
#include <string.h>

#define RONDE_STRATEGY(name) extern const ronde__strategy ronde__strategy_##name;
#include "strategy/strategies.inc"
#undef RONDE_STRATEGY

static const ronde__strategy *const strategies[] = {
#define RONDE_STRATEGY(name) &ronde__strategy_##name,
#include "strategy/strategies.inc"
#undef RONDE_STRATEGY
};

const ronde__strategy *ronde__strategy_at(int i) { return i < (int)RONDE__COUNT(strategies) ? strategies[i] : NULL; }

const ronde__strategy *ronde__strategy_find(const char *name, const ronde__strategy_settings *settings) {
  for (size_t i = 0; i < RONDE__COUNT(strategies); i++) {
    const ronde__strategy *s = strategies[i];
    if (strcmp(s->name, name) == 0 && (!s->is_meant || s->is_meant(settings))) return s;
  }
  return NULL;
}

static bool is_among(const char *const *names, const char *name) {
  for (; names && *names; names++)
    if (strcmp(*names, name) == 0) return true;
  return false;
}

bool ronde__strategy_understands(const ronde__strategy *strategy, const char *option) {
  bool is_somebodys = false;
  for (size_t i = 0; i < RONDE__COUNT(strategies); i++) is_somebodys |= is_among(strategies[i]->options, option);
  return !is_somebodys || is_among(strategy->options, option);
}

void ronde__strategy_names(const char *option, char *text, size_t bytes) {
  size_t used = 0;
  const char *last = "";
  if (bytes) *text = 0;
  for (size_t i = 0; i < RONDE__COUNT(strategies) && used < bytes; i++) {
    if (!is_among(strategies[i]->options, option) || strcmp(strategies[i]->name, last) == 0) continue;
    last = strategies[i]->name;
    used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", last);
  }
}

const ronde__strategy *ronde__strategy_default(int n_workers, const ronde__strategy_settings *settings) {
  return ronde__strategy_find(n_workers > 1 ? "allreduce" : "single", settings);
}

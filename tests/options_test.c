/* What options.inc says of every option, held against what a run does: each fact of each row is tried, so that a new
 * option is covered by its row. */
#include "resume_testing.h"

#include "config/option.h"

#define RUN "model=lenet5 data=synthetic:1x28x28:10:24 batch=8 threads=1 "

static const char *const verbs[] = {
#define RONDE_VERB(id, name, also) name,
#include "config/verbs.inc"
};

static const char *const need_names[] = {
#define RONDE_NEED(id, shown, why) #id,
#include "config/needs.inc"
};

/* ---- a value that is no option's default ---- */

static const struct {
  const char *name, *value;
} usual[] = {{"normalize", "0.5;0.25"}, {"transport", "threads"},  {"strategy", "allreduce"}, {"model", "alexnet"},
             {"resize", "28x28"},       {"checkpoint-every", "5"}, {"freeze", "conv1"},       {"memory-limit", "2G"}};

/* The first word that is not the default, and does not stand for nothing. */
static void sample_word(const ronde__option *o, char text[256]) {
  char words[256], *rest = words;
  snprintf(words, sizeof words, "%s", o->value);
  for (char *word; (word = strsep(&rest, "|"));)
    if (strcmp(word, o->deflt) && strcmp(word, "auto") && strcmp(word, "off")) {
      snprintf(text, 256, "%s", word);
      return;
    }
}

/* "": it has but one value. */
static void sample(const ronde__option *o, char text[256]) {
  text[0] = 0;
  for (size_t i = 0; i < RONDE__COUNT(usual); i++)
    if (!strcmp(usual[i].name, o->name)) snprintf(text, 256, "%s", usual[i].value);
  if (*text) return;
  switch (o->kind) {
  case RONDE__OPTION_KIND_BOOL: snprintf(text, 256, "%s", strcmp(o->deflt, "on") ? "on" : "off"); break;
  case RONDE__OPTION_KIND_INT: snprintf(text, 256, "%lld", atoll(o->deflt) + 1); break;
  case RONDE__OPTION_KIND_REAL:
  case RONDE__OPTION_KIND_AUTO: snprintf(text, 256, "0.25"); break;
  case RONDE__OPTION_KIND_PAIR: snprintf(text, 256, "0.5,0.5"); break;
  case RONDE__OPTION_KIND_TEXT: snprintf(text, 256, "%s/x", folder); break;
  case RONDE__OPTION_KIND_ENUM: sample_word(o, text);
  }
}

/* ---- the rows themselves ---- */

static bool is_of_train(const ronde__option *o) { return o->verbs & RONDE__VERB_TRAIN; }

/* It names an option whose values are words, and words that it has. */
static void check_with(const ronde__option *o, int verb) {
  const ronde__option *other = ronde__option_find(verb, o->with.option);
  char words[256], *rest = words;
  if (!other || other->kind != RONDE__OPTION_KIND_ENUM) fail_msg("%s: WITH(%s)", o->name, o->with.option);
  snprintf(words, sizeof words, "%s", o->with.words);
  for (char *word; (word = strsep(&rest, "|"));)
    if (ronde__choice_index(other->value, word) < 0) fail_msg("%s: WITH(%s, %s)", o->name, o->with.option, word);
}

static void each_row_is_whole(void **state) {
  for (size_t v = 0; v < RONDE__COUNT(verbs); v++) {
    const ronde__option *o;
    ronde_config *config = config_make(verbs[v], "");
    int verb = config->verb;
    for (int i = 0; (o = ronde__option_at(verb, i)); i++) {
      if (ronde__option_find(verb, o->name) != o) fail_msg("%s: %s has two rows", verbs[v], o->name);
      if (!o->help || !*o->help || !o->group || !*o->group) fail_msg("%s: no help, or no group", o->name);
      if (!o->deflt && o->kind != RONDE__OPTION_KIND_TEXT) fail_msg("%s: no default", o->name);
      if (is_of_train(o) != (o->resumed != RONDE__RESUMED_NONE)) fail_msg("%s: what does --resume do?", o->name);
      if (is_of_train(o) != (o->ranks != RONDE__RANKS_NONE)) fail_msg("%s: what do ranks do?", o->name);
      if (o->with.option) check_with(o, verb);
    }
    ronde_config_destroy(config);
  }
}

/* A misspelt one would be everybody's. */
static void strategies_name_options(void **state) {
  const ronde__strategy *strategy;
  for (int i = 0; (strategy = ronde__strategy_at(i)); i++) {
    for (const char *const *name = strategy->options; name && *name; name++)
      if (!ronde__option_find(RONDE__VERB_TRAIN, *name)) fail_msg("%s: there is no --%s", strategy->name, *name);
  }
}

/* ---- what it needs ---- */

/* Whether an option that is set alone is refused, once it is known that a need is not met. */
static bool is_refused(const char *verb, const ronde__option *o, ronde__need need) {
  ronde_config *config = config_make(verb, "");
  char value[256], words[300];
  sample(o, value);
  if (*value) assert_int_equal(ronde_config_set(config, o->name, value), RONDE_OK);
  bool is_set = ronde__config_is_set(config, o->name);
  test_log_start(&lines);
  bool refused = ronde__config_settle(config, need, false) == RONDE_E_USAGE;
  snprintf(words, sizeof words, "--%s can have no effect: ", o->name);
  if (refused && strncmp(lines.error, words, strlen(words))) fail_msg("%s: %s", o->name, lines.error);
  assert_int_equal(ronde__config_settle(config, need, true), RONDE_OK);
  ronde_config_destroy(config);
  return refused || (!is_set && ronde__option_needs(o, need));
}

static void a_need_refuses_what_has_it_and_nothing_else(void **state) {
  int n_options[RONDE__N_NEEDS] = {0};
  for (size_t v = 0; v < RONDE__COUNT(verbs); v++) {
    const ronde__option *o;
    ronde_config *config = config_make(verbs[v], "");
    for (int i = 0; (o = ronde__option_at(config->verb, i)); i++)
      for (int need = 0; need < RONDE__N_NEEDS; need++) {
        bool has = ronde__option_needs(o, (ronde__need)need);
        n_options[need] += has;
        if (is_refused(verbs[v], o, (ronde__need)need) != has) fail_msg("%s, %s", o->name, need_names[need]);
      }
    ronde_config_destroy(config);
  }
  for (int need = 0; need < RONDE__N_NEEDS; need++)
    if (!n_options[need]) fail_msg("%s: no option needs it", need_names[need]);
}

/* Trainings that lack one thing; without the options that need it they are fine. */
static const struct {
  const char *options;
  ronde_model_fn model;
  bool has_source, has_values, has_no_tests;
} lacking[RONDE__N_NEEDS] = {
    [RONDE__NEED_REAL_RUN] = {RUN "dry-run=on"},
    [RONDE__NEED_OUT] = {RUN "steps=1"},
    [RONDE__NEED_NEW_OUT] = {RUN "steps=1 resume=auto out=%s/new"},
    [RONDE__NEED_MODEL_PADDING] = {RUN "steps=1"},
    [RONDE__NEED_MODEL_DROPOUT] = {RUN "steps=1"},
    [RONDE__NEED_MODEL_ACTIVATION] = {RUN "steps=1"},
    [RONDE__NEED_VALUES] = {RUN "steps=1"},
    [RONDE__NEED_BATCH_NORM] = {RUN "steps=1 workers=2"},
    [RONDE__NEED_CROSS_ENTROPY] = {"batch=4 steps=1", small_regression, true, true},
    [RONDE__NEED_DATA] = {"batch=4 steps=1", small_model, true},
    [RONDE__NEED_ARRAYS] = {RUN "steps=1"},
    [RONDE__NEED_COLUMNS] = {RUN "steps=1"},
    [RONDE__NEED_TEXT] = {RUN "steps=1"},
    [RONDE__NEED_RECORDINGS] = {RUN "steps=1"},
    [RONDE__NEED_MASK] = {RUN "steps=1"},
    [RONDE__NEED_TOKENIZED] = {RUN "steps=1"},
    [RONDE__NEED_IMAGE_FILES] = {RUN "steps=1"},
    [RONDE__NEED_TESTS] = {"batch=4 steps=1", small_model, true, false, true},
    [RONDE__NEED_PATIENCE] = {RUN "steps=1"},
    [RONDE__NEED_CLASSES] = {"batch=4 steps=1", small_regression, true, true},
    [RONDE__NEED_SHUFFLE] = {RUN "steps=1 shuffle=off"},
    [RONDE__NEED_LENGTHS] = {RUN "steps=1"},
    [RONDE__NEED_TABLES] = {RUN "steps=1 workers=2"},
    [RONDE__NEED_SIMULATED] = {RUN "steps=1"},
    [RONDE__NEED_MEASURED] = {RUN "steps=1 transport=sim sim-net=/dev/null"},
    [RONDE__NEED_WEIGHTS] = {"model=lenet5 data=synthetic:1x28x28:10:24 batch=8 steps=1 transport=sim "
                             "sim-net=/dev/null sim-spans=none"},
    [RONDE__NEED_MPI] = {RUN "steps=1"},
    [RONDE__NEED_LAUNCHED] = {RUN "steps=1"},
    [RONDE__NEED_LOSSES] = {RUN "steps=1 workers=2"},
    [RONDE__NEED_RANKS] = {RUN "steps=1"},
    [RONDE__NEED_EXCHANGE] = {RUN "steps=1"},
    [RONDE__NEED_WORKERS] = {RUN "steps=1"},
    [RONDE__NEED_PARTS] = {RUN "steps=1 workers=2 strategy=dataparallel"},
};

/* Of other verbs, or of a comparison's cases: their tests have them. */
static bool is_elsewhere(ronde__need need) {
  return need == RONDE__NEED_COMPANY || need == RONDE__NEED_ALL_REDUCE || need == RONDE__NEED_STORED_IMAGES ||
         need == RONDE__NEED_DECODING || need == RONDE__NEED_DOWNLOAD || need == RONDE__NEED_WRITING ||
         need == RONDE__NEED_SEVERAL_HOSTS || need == RONDE__NEED_TOKENS || need == RONDE__NEED_DRAWN ||
         need == RONDE__NEED_TRANSLATION || need == RONDE__NEED_BLEU || need == RONDE__NEED_BEAM ||
         need == RONDE__NEED_LEARNING || need == RONDE__NEED_OVERLAP;
}

/* more: as "name=value", or NULL. */
static ronde_status train_lacking(ronde__need need, const char *name, const char *value) {
  ronde_source source = lacking[need].has_values ? small_values(8, lacking[need].has_no_tests ? 0 : 4)
                                                 : small_source(8, lacking[need].has_no_tests ? 0 : 4);
  ronde_hooks hooks = {.model = lacking[need].model, .source = lacking[need].has_source ? &source : NULL};
  char *options = ronde__format(lacking[need].options, folder), *text = NULL;
  ronde_config *config = config_make("train", options);
  if (name) assert_int_equal(ronde_config_set(config, name, value), RONDE_OK);
  test_log_start(&lines);
  ronde_status status = ronde_train(config, &hooks, &text);
  ronde_config_destroy(config);
  free(options);
  free(text);
  return status;
}

static void check_lacking(ronde__need need, const ronde__option *o) {
  char value[256], words[80];
  ronde_config *config = config_make("train", "");
  sample(o, value);
  assert_int_equal(ronde_config_set(config, o->name, value), RONDE_OK);
  bool is_neutral = !ronde__config_is_set(config, o->name);
  ronde_config_destroy(config);
  if (is_neutral) return; /* "off" is never refused */
  snprintf(words, sizeof words, "--%s can have no effect: ", o->name);
  ronde_status status = train_lacking(need, o->name, value);
  if (status != RONDE_E_USAGE || !strstr(lines.error, words))
    fail_msg("without %s, --%s %s: %s: %s", need_names[need], o->name, value, ronde_status_text(status), lines.error);
}

static void a_run_refuses_what_lacks_something(void **state) {
  for (int need = 0; need < RONDE__N_NEEDS; need++) {
    const ronde__option *o;
    if (is_elsewhere((ronde__need)need)) continue;
    if (!lacking[need].options) fail_msg("%s: no training here lacks it", need_names[need]);
    if (train_lacking((ronde__need)need, NULL, NULL) != RONDE_OK) fail_msg("%s: %s", need_names[need], lines.error);
    for (int i = 0; (o = ronde__option_at(RONDE__VERB_TRAIN, i)); i++)
      if (ronde__option_needs(o, (ronde__need)need)) check_lacking((ronde__need)need, o);
  }
}

/* Every word of the other option, with the value of the one that needs some of them. */
static void a_run_refuses_what_is_for_other_words(void **state) {
  const ronde__option *o;
  for (int i = 0; (o = ronde__option_at(RONDE__VERB_TRAIN, i)); i++) {
    char words[256], value[256], *rest = words;
    if (!o->with.option) continue;
    snprintf(words, sizeof words, "%s", ronde__option_find(RONDE__VERB_TRAIN, o->with.option)->value);
    sample(o, value);
    for (char *word; (word = strsep(&rest, "|"));) {
      ronde_config *config = config_make("train", "");
      assert_int_equal(ronde_config_set(config, o->with.option, word), RONDE_OK);
      assert_int_equal(ronde_config_set(config, o->name, value), RONDE_OK);
      bool is_neutral = !ronde__config_is_set(config, o->name); /* "off" is never refused */
      bool is_for_it = is_neutral || ronde__choice_index(o->with.words, word) >= 0;
      test_log_start(&lines);
      ronde_status status = ronde__config_settle_others(config);
      ronde_config_destroy(config);
      if ((status == RONDE_OK) != is_for_it) fail_msg("%s with %s: %s", o->name, word, lines.error);
      if (!is_for_it && (!strstr(lines.error, o->name) || !strstr(lines.error, word))) fail_msg("%s", lines.error);
    }
  }
}

/* ---- --resume ---- */

/* Two steps of six, and their checkpoint. */
static char *make_checkpoint(void) {
  stop s = {.at = 2};
  ronde_hooks hooks = {.cancel = stop_cancel, .user = &s};
  char *options = ronde__format(RUN "epochs=2 out=%s/run", folder), *text = NULL;
  ronde_config *config = config_make("train", options);
  assert_int_equal(ronde_train(config, &hooks, &text), RONDE_E_CANCELLED);
  ronde_config_destroy(config);
  free(options);
  free(text);
  return ronde__format("%s/run/checkpoints/step-2.safetensors", folder);
}

/* One whose value is resolved to what it was changes nothing. */
static bool is_resolved_away(const char *name) { return !strcmp(name, "lr-divide-workers"); }

static void a_run_goes_on_with_what_may_change_alone(void **state) {
  const ronde__option *o;
  char *path = make_checkpoint();
  for (int i = 0; (o = ronde__option_at(RONDE__VERB_TRAIN, i)); i++) {
    char value[256], *text = NULL;
    sample(o, value);
    if (!*value || !strcmp(o->name, "resume") || is_resolved_away(o->name)) continue;
    ronde_config *config = config_make("train", "");
    assert_int_equal(ronde_config_set(config, "resume", path), RONDE_OK);
    assert_int_equal(ronde_config_set(config, o->name, value), RONDE_OK);
    test_log_start(&lines);
    ronde_status status = ronde_train(config, NULL, &text);
    bool fixed = o->resumed == RONDE__RESUMED_FIXED,
         is_refused = strstr(lines.error, "cannot change when a run is resumed");
    if (fixed ? status == RONDE_OK : is_refused) fail_msg("--%s %s: %s", o->name, value, lines.error);
    if (fixed && !strstr(lines.error, o->name) && !strstr(lines.error, value))
      fail_msg("--%s %s: %s", o->name, value, lines.error);
    ronde_config_destroy(config);
    free(text);
  }
  free(path);
}

static const char *strategy_for(const char *option) {
  const ronde__strategy *strategy;
  for (int i = 0; (strategy = ronde__strategy_at(i)); i++)
    if (strategy->max_workers != 1 && ronde__strategy_understands(strategy, option)) return strategy->name;
  return "allreduce";
}

/* Of a run of two workers, by a strategy that understands the option. */
static void a_run_takes_over_what_it_does_not_ask_once(void **state) {
  const ronde__option *o;
  ronde__resume *r;
  char *path = make_checkpoint();
  assert_int_equal(ronde__resume_open(path, &r), RONDE_OK);
  for (int i = 0; (o = ronde__option_at(RONDE__VERB_TRAIN, i)); i++) {
    char value[256];
    sample(o, value);
    if (!*value || !strcmp(o->name, "model")) continue;
    ronde_config *config = config_make("train", "");
    char *out = ronde__format("%s/other", folder);
    if (strcmp(o->name, "out")) assert_int_equal(ronde_config_set(config, "out", out), RONDE_OK);
    json_t *given = json_pack("{s:s, s:s}", "workers", "2", "strategy", strategy_for(o->name));
    json_object_set_new(given, o->name, json_string(value));
    json_object_set_new(r->json, "given", given);
    json_object_set_new(json_object_get(r->json, "config"), "collective", json_string("ring")); /* not chosen */
    assert_int_equal(ronde__resume_options(r, config, 0), RONDE_OK);
    bool is_taken = !strcmp(ronde_config_get(config, o->name), value);
    if (is_taken != (o->resumed != RONDE__RESUMED_ONCE))
      fail_msg("--%s %s: it is %s", o->name, value, ronde_config_get(config, o->name));
    ronde_config_destroy(config);
    free(out);
  }
  ronde__resume_close(r);
  free(path);
}

/* ---- ranks ---- */

static void ranks_share_what_must_be_the_same(void **state) {
  const ronde__option *o;
  ronde_config *config = config_make("train", "");
  json_t *shared = ronde__config_common(config);
  size_t n = 0;
  for (int i = 0; (o = ronde__option_at(RONDE__VERB_TRAIN, i)); i++) {
    bool is_same = o->ranks == RONDE__RANKS_SAME;
    n += is_same;
    if (!json_object_get(shared, o->name) == is_same) fail_msg("%s", o->name);
    /* What is done once for all ranks is of one run, and each rank but the first is without it. */
    if (o->ranks == RONDE__RANKS_LED) assert_int_equal(o->resumed, RONDE__RESUMED_ONCE);
  }
  assert_int_equal(json_object_size(shared), n);
  assert_true(n > 20 && n < 110);
  json_decref(shared);
  ronde_config_destroy(config);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(each_row_is_whole),
      TEST(strategies_name_options),
      TEST(a_need_refuses_what_has_it_and_nothing_else),
      TEST(a_run_refuses_what_lacks_something),
      TEST(a_run_refuses_what_is_for_other_words),
      TEST(a_run_goes_on_with_what_may_change_alone),
      TEST(a_run_takes_over_what_it_does_not_ask_once),
      TEST(ranks_share_what_must_be_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

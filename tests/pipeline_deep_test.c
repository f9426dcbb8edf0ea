/* Every built-in network in 2, 3, 4 and 7 stages, as threads, as processes and in virtual time: the bits of one worker whose
 * batches are the micro-batches; and a lost stage. Where stages end is a matter of their number alone, and what is sent
 * a matter of the network; so not each number is tried on each transport. */
#include "mpi_testing.h"

#include <regex.h>

#include "models_testing.h"
#include "sanitized.h"

typedef struct network {
  const char *name, *options;
  int most_stages; /* as many layers as can be apart */
  bool is_large;   /* some seconds a run: one number of stages on each transport */
} network;

static const network networks[] = {
    {"lenet5", "--model lenet5 --data synthetic:1x28x28:10:16", 4, false},
    {"mnist-small", "--model mnist-small --data synthetic:1x28x28:10:16", 3, false},
    {"mnist-large", "--model mnist-large --data synthetic:1x28x28:10:16", 4, false},
    {"mlp", "--model mlp:40,30,30,30,20,20,10 --data synthetic:1x8x8:4:16", 7, false},
    {"alexnet", "--model alexnet --data synthetic:3x64x64:10:16", 7, true},
    {"resnet18", "--model resnet18 --data synthetic:3x32x32:10:16", 7, true},
    {"resnet18-cifar", "--model resnet18-cifar --data synthetic:3x16x16:4:16", 7, false},
    {"resnet50", "--model resnet50 --data synthetic:3x64x64:10:16", 7, true},
    {"vgg16-tiny", "--model vgg16-tiny --data synthetic:3x32x32:10:16", 7, false},
    {"inception-v3-tiny", "--model inception-v3-tiny --data synthetic:3x75x75:10:16", 7, true},
    {"gpt-tiny", "--model gpt-tiny --data text:numbers.txt --window 16", 7, false},
    {"transformer-tiny", "--model transformer-tiny --data pairs:pairs.tsv --window 8", 7, false},
    {"gnmt-tiny", "--model gnmt-tiny --data pairs:pairs.tsv --window 8", 7, false},
#ifdef RONDE_HAVE_AUDIO
    {"deepspeech2-tiny", "--model deepspeech2-tiny --data audio:recordings", 7, false},
    {"tacotron2-tiny", "--model tacotron2-tiny --data audio:recordings", 7, false},
#endif
    {"bert-tiny", "--model bert-tiny --data text:numbers.txt --window 16", 1, false}, /* see below */
};

#define TRAIN                                                                       \
  "timeout 200 " RONDE                                                              \
  " train --threads 1 --quiet --steps 2 --momentum 0.9 --lr 0.0001 --no-save-last " \
  "--no-save-best "

static char *hash_of(const char *name) {
  json_t *run = left_by(name, "run.json");
  char *hash = strdup(json_string_value(json_object_get(json_object_get(run, "result"), "state_sha256")));
  json_decref(run);
  return hash;
}

enum { MOST_COUNTS = 4, N_NETWORKS = sizeof networks / sizeof *networks };

/* Numbers of stages on a transport; a network with fewer layers has as many stages as layers. */
typedef struct cuts {
  const char *transport;
  int small[MOST_COUNTS], large;
} cuts;

static const char *one_workers_hash(const network *n) {
  static char *hashes[N_NETWORKS];
  char **hash = &hashes[n - networks];
  if (*hash) return *hash;
  check_run(0, run(TRAIN "%s --batch 2 --accumulate 2 --overwrite --out one", n->options));
  return *hash = hash_of("one");
}

static void check_stages(const network *n, const char *transport, int stages) {
  check_run(0, run(TRAIN "%s --batch 4 --micro-batches 2 --strategy pipeline --workers %d %s --overwrite --out many",
                   n->options, stages, transport));
  char *many = hash_of("many");
  if (strcmp(one_workers_hash(n), many))
    fail_msg("%s in %d stages %s: other bits than one worker", n->name, stages, transport);
  free(many);
}

static void check_network(const network *n, const cuts *c) {
  const int *counts = n->is_large ? &c->large : c->small;
  int n_counts = n->is_large ? 1 : MOST_COUNTS;
  for (int i = 0, last = 0; i < n_counts && counts[i]; i++) {
    int stages = counts[i] < n->most_stages ? counts[i] : n->most_stages;
    if (stages > last && stages > 1) check_stages(n, c->transport, stages);
    last = stages;
  }
}

static void check_all(const cuts *c) {
  check_run(0, run("seq 400 >numbers.txt; seq 400 | sed 's/.*/&\tn&/' >pairs.tsv"));
  /* 16 recordings of 0.3 s at 16 kHz: a header of WAV, and characters as samples of 16 bits */
  check_run(0, run("mkdir -p recordings; rm -f recordings/transcripts.txt; for i in $(seq 10 25); do { printf "
                   "'RIFF\\244\\045\\000\\000WAVEfmt "
                   "\\020\\000\\000\\000\\001\\000\\001\\000\\200\\076\\000\\000\\000\\175\\000\\000\\002\\000\\020"
                   "\\000data\\200\\045\\000\\000'; seq ${i}000 99999 | head -c 9600; } >recordings/$i.wav; "
                   "printf '%%s\\ta b\\n' $i.wav >>recordings/transcripts.txt; done"));
  for (size_t i = 0; i < N_NETWORKS; i++)
    if (!SANITIZED || !networks[i].is_large) check_network(&networks[i], c);
}

/* Its first layer and its last one share their weights. */
static void a_network_that_cannot_be_cut_is_refused(void **state) {
  check_run(0, run("seq 400 >numbers.txt"));
  check_run(2, run(TRAIN "--model bert-tiny --data text:numbers.txt --window 16 --batch 4 --micro-batches 2 --strategy "
                         "pipeline --workers 2 --out refused"));
  check_says("layers that share a parameter");
}

/* A network that is added is to be listed here, or its tiny form, which is the same code. */
static void every_network_is_there(void **state) {
  const ronde__model *model;
  for (int i = 0; (model = ronde__model_at(i)); i++) {
    bool listed = tiny_form_of(model) != NULL;
    for (size_t j = 0; j < sizeof networks / sizeof *networks; j++) listed |= !strcmp(networks[j].name, model->name);
    if (!listed) fail_msg("%s is in no list", model->name);
  }
}

static void threads_have_the_bits_of_one_worker(void **state) {
  static const cuts all = {"--transport threads", {2, 3, 4, 7}, 2}, most = {"--transport threads", {7}, 2};
  check_all(SANITIZED ? &most : &all);
}

static void processes_have_the_bits_of_one_worker(void **state) {
  need_mpi();
  check_all(&(cuts){"--transport mpi", {4}, 4});
}

static void ranks_in_virtual_time_have_the_bits_of_one_worker(void **state) {
  leave_out_if(SANITIZED, "networks in stages in virtual time: on threads they have the same code");
  check_run(0, run("echo hosts 7 ranks 1 >hosts.txt"));
  check_all(&(cuts){"--transport sim --sim-net hosts.txt", {7}, 7});
}

static void check_matches(const char *pattern) {
  regex_t regex;
  assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB | REG_NEWLINE), 0);
  int missing = regexec(&regex, said, 0, NULL, 0);
  regfree(&regex);
  if (missing) fail_msg("no '%s' in:\n%s", pattern, said);
}

/* Of whatever stage; the others wait for its messages, and hear that it is gone. Where they have said so the launcher waits
 * for mpirun's word only shortly (TOOL_NAMED_MS), which has the signal. */
static void a_killed_stage_is_named(void **state) {
  need_mpi();
  for (int rank = 0; rank < 3; rank++) {
    check_run(4,
              run(TRAIN "--model mlp:40,30,20 --data synthetic:1x8x8:4:64 --batch 16 --micro-batches 4 --steps 100000 "
                        "--strategy pipeline --transport mpi --workers 3 --drill kill:%d@50 --overwrite --out killed",
                  rank));
    char pattern[100];
    snprintf(pattern, sizeof pattern, "rank %d on host .*(the process has gone|was lost: killed by signal 9)", rank);
    check_matches(pattern);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_network_is_there),
                                     cmocka_unit_test(a_network_that_cannot_be_cut_is_refused),
                                     cmocka_unit_test(threads_have_the_bits_of_one_worker),
                                     cmocka_unit_test(processes_have_the_bits_of_one_worker),
                                     cmocka_unit_test(ranks_in_virtual_time_have_the_bits_of_one_worker),
                                     cmocka_unit_test(a_killed_stage_is_named)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

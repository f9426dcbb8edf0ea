/* `ronde compare --peers`: other systems as cases of a comparison. A peer is a script here that plays one by training with
 * Ronde, and changes its record by a sed program. */
#include "command_testing.h"

#include <jansson.h>
#include <stdbool.h>
#include <unistd.h>

#define COMPARE                                                                                           \
  RONDE                                                                                                   \
  " compare --model lenet5 --data synthetic:1x28x28:10:80 --batch 8 --steps 4 --shuffle off --threads 1 " \
  "--workers 2 --strategies allreduce,ps-sync --rounds 2 --peers-dir peers --peers "

static char folder[64];

/* A "pytorch" with this change of run.json; `fails` is a shell command in front of all. */
static void make_peer(const char *change, const char *fails) {
  char path[256];
  check_run(0, run("mkdir -p %s/peers/pytorch/bin %s/peers/scripts && ln -sf /bin/sh %s/peers/pytorch/bin/python",
                   folder, folder, folder));
  snprintf(path, sizeof path, "%s/peers/scripts/cluster.py", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(
      file,
      "%s\nfor word; do shift; case $word in --ronde=*) ronde=${word#*=};; --out=*) out=${word#*=};; --system=*|--) ;;"
      " *) set -- \"$@\" \"$word\";; esac; done\n"
      "\"$ronde\" \"$@\" --out \"$out\" --overwrite --quiet && sed -i '%s' \"$out/run.json\" && cat "
      "\"$out/run.json\"\n",
      fails, change);
  assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state) {
  snprintf(folder, sizeof folder, "/tmp/ronde-peers-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) { return run("rm -rf %s", folder); }

static json_t *bench(void) {
  char path[256];
  snprintf(path, sizeof path, "%s/out/bench.json", folder);
  json_t *json = json_load_file(path, 0, NULL);
  if (!json) fail_msg("no %s", path);
  return json;
}

static const json_t *one_of(const json_t *json, size_t i) { return json_array_get(json_object_get(json, "cases"), i); }
static const char *text(const json_t *object, const char *key) {
  const char *value = json_string_value(json_object_get(object, key));
  return value ? value : "";
}

/* Another version is no other work; its phases and steps stand beside Ronde's, and a report is made of all. */
static void a_peer_of_the_same_work_is_ranked(void **state) {
  make_peer("s/\"ronde\": \"[^\"]*\"/\"peer\": \"other\"/", "");
  check_run(0, run("cd %s && " COMPARE "pytorch,mxnet --out out && " RONDE " report out -o out/r.html", folder));
  check_says("left out: mxnet-sync: there is no peers/mxnet/bin/python (make peers)");
  check_says("left out: mxnet-async: ");
  json_t *json = bench();
  assert_int_equal(json_array_size(json_object_get(json, "cases")), 3);
  assert_true(json_is_true(json_object_get(json, "ranked")));
  const json_t *peer = one_of(json, 2);
  assert_string_equal(text(peer, "name"), "system=pytorch-ddp");
  assert_string_equal(text(peer, "system"), "pytorch-ddp");
  assert_string_equal(text(one_of(json, 0), "system"), "ronde");
  assert_string_equal(text(json_object_get(peer, "values"), "system"), "pytorch-ddp");
  assert_int_equal(json_array_size(json_object_get(json_object_get(peer, "step_s"), "samples")), 2 * 3);
  assert_true(json_equal(json_object_get(json_object_get(peer, "audit"), "first_loss"),
                         json_object_get(json_object_get(one_of(json, 0), "audit"), "first_loss")));
  json_decref(json);
  /* goes on with it: what says the same command is taken over, and the peer of this test says Ronde's */
  check_run(0, run("cd %s && " COMPARE "pytorch --out out --continue", folder));
  json = bench();
  assert_int_equal(json_integer_value(json_object_get(json, "taken_over")), 4);
  json_decref(json);
}

/* Without a list of its own options Ronde is one case. */
static void the_systems_are_a_list(void **state) {
  make_peer("s/\"ronde\": \"[^\"]*\"/\"peer\": \"other\"/", "");
  check_run(0, run("cd %s && " RONDE
                   " compare --model lenet5 --data synthetic:1x28x28:10:80 --batch 8 --steps 4 --shuffle off "
                   "--threads 1 --rounds 1 --peers-dir peers --peers pytorch --out out --overwrite",
                   folder));
  json_t *json = bench();
  assert_int_equal(json_array_size(json_object_get(json, "cases")), 2);
  assert_string_equal(text(one_of(json, 0), "name"), "system=ronde");
  assert_true(json_is_true(json_object_get(json, "ranked")));
  json_decref(json);
}

static void check_difference(const char *change, const char *field) {
  make_peer(change, "");
  check_run(7, run("cd %s && " COMPARE "pytorch --out out --overwrite", folder));
  check_says("not ranked, as the cases are not the same work");
  json_t *json = bench();
  assert_true(json_is_false(json_object_get(json, "ranked")));
  assert_string_equal(text(json_array_get(json_object_get(json, "differences"), 0), "field"), field);
  json_decref(json);
}

static void other_work_is_not_ranked(void **state) {
  check_difference("s/\"parameters\": [0-9]*/\"parameters\": 61707/", "parameters");
  check_difference("s/\"forward_flops_per_example\": [0-9]*/\"forward_flops_per_example\": 1/",
                   "forward_flops_per_example");
  check_difference("s/\"sha256\": \"[0-9a-f]*\"/\"sha256\": \"0\"/", "data_sha256");
  check_difference("s/\"lr\": [0-9.]*,$/\"lr\": 0.5,/", "lr");
  check_difference("s/\"eps\": [0-9.e-]*/\"eps\": 1e-7/", "eps");
  check_difference("s/\"momentum\": [0-9.]*/\"momentum\": 0.5/", "momentum");
  check_difference("s/\"shuffle\": false/\"shuffle\": true/", "shuffle");
  check_difference("s/\"threads_per_worker\": 1/\"threads_per_worker\": 2/", "threads_per_worker");
  check_difference("s/\"cache\": true/\"cache\": false/", "cache");
  /* other weights or other gradients */
  check_difference(
      "w /dev/null\n' \"$out/run.json\" && sed -i '1s/\"loss\":[0-9.]*/\"loss\":2.5/' \"$out/steps.jsonl\" && sed -i '",
      "first_loss");
  check_difference(
      "w /dev/null\n' \"$out/run.json\" && sed -i '2s/\"loss\":[0-9.]*/\"loss\":2.5/' \"$out/steps.jsonl\" && sed -i '",
      "second_loss");
}

static void a_peer_that_cannot_is_left_out(void **state) {
  make_peer("", "echo 'ronde: error: pytorch-ddp: it cannot do that' >&2; exit 2");
  check_run(0, run("cd %s && " COMPARE "pytorch --out out --overwrite", folder));
  check_says("left out: system=pytorch-ddp: pytorch-ddp: it cannot do that");
  check_run(0,
            run("cd %s && mkdir -p peers/mxnet && echo 'not to be had for Python 3.99' >peers/mxnet/missing && " COMPARE
                "mxnet --out out --overwrite",
                folder));
  check_says("left out: mxnet-sync: not to be had for Python 3.99");
}

/* Once; the failure stands in the record. */
static void a_peer_that_crashes_is_tried_again(void **state) {
  make_peer("s/\"ronde\": \"[^\"]*\"/\"peer\": \"other\"/",
            "case \"$*\" in *pytorch-ddp-1*) [ -e failed ] || { touch failed; kill -11 $$; };; esac");
  check_run(0, run("cd %s && " COMPARE "pytorch --out out --overwrite", folder));
  check_says("system=pytorch-ddp: its process failed; once more");
  json_t *json = bench();
  assert_int_equal(json_integer_value(json_object_get(one_of(json, 2), "failures")), 1);
  assert_int_equal(json_integer_value(json_object_get(one_of(json, 0), "failures")), 0);
  json_decref(json);
  make_peer("", "case \"$*\" in *pytorch-ddp-1*) exit 1;; esac");
  check_run(1, run("cd %s && " COMPARE "pytorch --out out --overwrite", folder));
  check_says("system=pytorch-ddp: its training failed");
}

static void write_file(const char *name, const char *text_of) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text_of, file);
  assert_int_equal(fclose(file), 0);
}

/* bench/peers/cluster_hosts.py, without a system: each host's side is a script here, and ssh another one. */
static void processes_go_round_the_hosts(void **state) {
  if (run("python3 --version")) {
    print_message("SKIP: no python3 here: hosts of peers are not tried\n");
    skip();
  }
  write_file("agent.sh", "[ $1 = gone ] && exit 255; export AT=$1; exec sh -c \"$2\"\n");
  write_file("side.py",
             "import json, os, sys\n"
             "asked, at = json.loads(sys.stdin.readline()), os.environ['AT']\n"
             "print(json.dumps({'host': at, 'address': 'to-' + at, 'iface': 'e', 'ports': list(range(asked['n']))}), "
             "flush=True)\n"
             "for one in json.loads(sys.stdin.readline())['processes']:\n"
             "    if at == 'broken': print(json.dumps({'index': one['index'], 'failed': 'no torch'}), flush=True)\n"
             "    elif one['reports']: print(json.dumps({'index': one['index'], 'report': {'rank': one['index'], 'at': "
             "at}}), flush=True)\n"
             "sys.stdin.read()\n");
  write_file("try.py",
             "import json, pathlib, sys, cluster_hosts\n"
             "cluster_hosts.SIDE = pathlib.Path('side.py').resolve()\n"
             "def fail(text): sys.exit(text)\n"
             "of = cluster_hosts.hosts_of_ranks(sys.argv[1], int(sys.argv[2]))\n"
             "hosts = cluster_hosts.Hosts(of, 30, fail)\n"
             "at = hosts.prepare('ronde', {'config': {}}, of)\n"
             "said = hosts.run([{'index': i, 'reports': i < 3} for i in range(len(of))], of, 3)\n"
             "print([(one['rank'], one['at'], *at[i][:2]) for i, one in enumerate(said)])\n");
#define TRY                                                         \
  "cd %s && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" RONDE_SOURCE_DIR \
  "/bench/peers OMPI_MCA_plm_rsh_agent='sh agent.sh' timeout 60 "   \
  "python3 try.py "
  check_run(0, run(TRY "a,b:2 3", folder));
  check_says("[(0, 'a', 'to-a', 0), (1, 'b', 'to-b', 0), (2, 'b', 'to-b', 1)]");
  check_run(0, run(TRY "a,b,c 4", folder)); /* more workers than was said */
  check_says("[(0, 'a', 'to-a', 0), (1, 'b', 'to-b', 0), (2, 'c', 'to-c', 0)]");
  check_run(1, run(TRY "a,gone 3", folder));
  check_says("host gone cannot be reached");
  check_run(1, run(TRY "a,broken 2", folder));
  check_says("a worker on host broken ended without a result: no torch");
}

static void what_cannot_be_is_refused(void **state) {
  check_run(2, run("cd %s && " RONDE " compare --model lenet5 --data synthetic:1x28x28:10:80 --batch 8 --shuffle off "
                   "--peers-dir none --peers mxnet",
                   folder));
  check_says("nothing is left to compare system=ronde with: no peer can do this work here");
  check_run(2, run("cd %s && " COMPARE "caffe", folder));
  check_says("--peers: 'caffe' is not pytorch, tensorflow, tensorflow-replicas or mxnet");
  check_run(2, run(RONDE " compare --model lenet5 --data synthetic:1x28x28:10:80 --exec graph,eager --peers-dir x"));
  check_says("--peers-dir can have no effect without --peers");
  check_run(2, run(RONDE " compare --model lenet5 --data synthetic:1x28x28:10:80 --scaling 1,2 --peers pytorch"));
  check_says("--peers and --scaling contradict each other");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_cannot_be_is_refused),
      cmocka_unit_test(a_peer_of_the_same_work_is_ranked),
      cmocka_unit_test(the_systems_are_a_list),
      cmocka_unit_test(other_work_is_not_ranked),
      cmocka_unit_test(processes_go_round_the_hosts),
      cmocka_unit_test(a_peer_that_cannot_is_left_out),
      cmocka_unit_test(a_peer_that_crashes_is_tried_again),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

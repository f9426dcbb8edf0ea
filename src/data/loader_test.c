/* Loaders: one global order of examples for every number of workers, places to start at, examples to skip, and sources that
 * fail. */
#include "data/testing.h"

#include <pthread.h>
#include <stdatomic.h>

#include "data/data.h"

static test_log lines;

enum { ELEMS = 6, CLASSES = 5 };

/* ---- a source whose examples say who they are -------------------------------------------------------------------- */

typedef struct probe {
  atomic_int n_reads, n_rows;
  int64_t wrong_label_id; /* -1: none */
  int64_t fail_at_id;     /* -1: none */
  atomic_bool blocked;    /* reads wait while it is set */
  atomic_bool waiting;
} probe;

static const probe sane = {.wrong_label_id = -1, .fail_at_id = -1};

static ronde_status probe_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                               float *targets) {
  probe *p = user;
  atomic_fetch_add(&p->n_reads, 1);
  atomic_fetch_add(&p->n_rows, (int)n);
  while (atomic_load(&p->blocked)) {
    atomic_store(&p->waiting, true);
    usleep(100);
  }
  if (split != RONDE_SPLIT_TRAIN) return RONDE_E_INTERNAL;
  for (int64_t i = 0; i < n; ++i) {
    if (ids[i] == p->fail_at_id) return RONDE_E_LOST;
    for (int e = 0; e < ELEMS; ++e) x[i * ELEMS + e] = (float)(ids[i] * 10 + e);
    if (labels) labels[i] = ids[i] == p->wrong_label_id ? CLASSES : ids[i] % CLASSES;
    if (targets) targets[2 * i] = (float)ids[i], targets[2 * i + 1] = -1;
  }
  return RONDE_OK;
}

typedef struct rig {
  ronde__data *data;
  ronde__sampler *sampler;
} rig;

static rig rig_make(probe *p, int64_t n, bool with_classes, ronde__sampler_options options) {
  rig r;
  const ronde_source source = {.name = "probe",
                               .rank = 2,
                               .dims = {2, 3},
                               .classes = with_classes ? CLASSES : 0,
                               .target_elems = 2,
                               .n_examples = {n, 0},
                               .read = probe_read,
                               .user = p};
  options.n_train = n;
  options.repeat = 1;
  assert_int_equal(ronde__data_wrap(&source, &r.data), RONDE_OK);
  assert_int_equal(ronde__sampler_create(&options, &r.sampler), RONDE_OK);
  return r;
}

static void rig_destroy(rig r) {
  ronde__sampler_destroy(r.sampler);
  ronde__data_close(r.data);
}

static ronde__loader *rig_loader(rig r, ronde__loader_options options) {
  ronde__loader *loader;
  options.data = r.data;
  options.sampler = r.sampler;
  if (!options.world) options.world = 1;
  assert_int_equal(ronde__loader_create(&options, &loader), RONDE_OK);
  return loader;
}

static ronde__batch next(ronde__loader *loader) {
  ronde__batch batch;
  assert_int_equal(ronde__loader_next(loader, &batch), RONDE_OK);
  return batch;
}

static int64_t id_in(const ronde__batch *batch, int64_t row) { return (int64_t)batch->x[row * ELEMS] / 10; }

/* ---- which examples -----------------------------------------------------------------------------------------------
 */

/* The ids of two epochs in the order of the global list, put together from all ranks; freed by the caller. */
static int64_t *gather(rig r, int world, bool whole, int prefetch) {
  int64_t n = ronde__sampler_epoch_examples(r.sampler), batches = 2 * ronde__sampler_epoch_batches(r.sampler), end = 0;
  int64_t *ids = malloc((size_t)(2 * n) * sizeof *ids);
  ronde__loader *loaders[7];
  for (int rank = 0; rank < world; ++rank)
    loaders[rank] =
        rig_loader(r, (ronde__loader_options){.rank = rank, .world = world, .whole = whole, .prefetch = prefetch});
  for (int64_t b = 0; b < batches; ++b) {
    int64_t begin = end;
    for (int rank = 0; rank < world; ++rank) {
      ronde__batch batch = next(loaders[rank]);
      assert_int_equal(batch.epoch, 1 + b / (batches / 2));
      assert_int_equal(batch.index, b % (batches / 2));
      assert_int_equal(batch.n, ronde__shard_begin(batch.global_n, rank + 1, world) -
                                    ronde__shard_begin(batch.global_n, rank, world));
      for (int64_t i = 0; i < batch.n; ++i, ++end) {
        ids[end] = id_in(&batch, i);
        assert_float_equal(batch.x[i * ELEMS + ELEMS - 1], ids[end] * 10 + ELEMS - 1, 0);
        assert_int_equal(batch.labels[i], ids[end] % CLASSES);
      }
      if (rank == world - 1) assert_int_equal(end - begin, batch.global_n);
    }
  }
  assert_int_equal(end, 2 * n);
  for (int rank = 0; rank < world; ++rank) ronde__loader_destroy(loaders[rank]);
  return ids;
}

static void test_one_global_order_for_every_world(void **state) {
  static const int worlds[] = {1, 2, 3, 4, 7};
  static const int64_t batches[] = {1, 3, 8, 13, 41};
  enum { N = 41 };
  for (size_t b = 0; b < RONDE__COUNT(batches); ++b)
    for (int drop_last = 0; drop_last < 2; ++drop_last) {
      probe p = sane;
      rig r =
          rig_make(&p, N, true,
                   (ronde__sampler_options){.batch = batches[b], .shuffle = true, .drop_last = drop_last, .seed = 11});
      int64_t n = ronde__sampler_epoch_examples(r.sampler), *wanted = malloc((size_t)(2 * n) * sizeof *wanted);
      ronde__sampler_epoch(r.sampler, 1, wanted);
      ronde__sampler_epoch(r.sampler, 2, wanted + n);
      for (size_t w = 0; w < RONDE__COUNT(worlds); ++w)
        for (int form = 0; form < 4; ++form) {
          int64_t *ids = gather(r, worlds[w], form & 1, form & 2 ? 4 : 0);
          assert_memory_equal(ids, wanted, (size_t)(2 * n) * sizeof *ids);
          int counts[N] = {0};
          for (int64_t i = 0; i < n; ++i) ++counts[ids[i]];
          for (int i = 0; i < N && !drop_last; ++i) assert_int_equal(counts[i], 1);
          free(ids);
        }
      free(wanted);
      rig_destroy(r);
    }
}

static void test_a_rank_without_examples_gets_none(void **state) {
  probe p = sane;
  rig r = rig_make(&p, 5, true, (ronde__sampler_options){.batch = 3});
  ronde__loader *loader = rig_loader(r, (ronde__loader_options){.rank = 2, .world = 3, .prefetch = 2});
  assert_int_equal(next(loader).n, 1);
  ronde__batch batch = next(loader);
  assert_int_equal(batch.n, 0);
  assert_int_equal(batch.global_n, 2);
  assert_int_equal(next(loader).epoch, 2);
  ronde__loader_destroy(loader);
  rig_destroy(r);
}

static void test_whole_reads_everything(void **state) {
  for (int whole = 0; whole < 2; ++whole) {
    probe p = sane;
    rig r = rig_make(&p, 40, true, (ronde__sampler_options){.batch = 8});
    ronde__loader *loader = rig_loader(r, (ronde__loader_options){.rank = 1, .world = 4, .whole = whole});
    for (int b = 0; b < 5; ++b) assert_int_equal(next(loader).n, 2);
    assert_int_equal(p.n_rows, whole ? 40 : 10);
    ronde__loader_destroy(loader);
    rig_destroy(r);
  }
}

static void test_it_starts_where_it_is_told(void **state) {
  probe p = sane;
  rig r = rig_make(&p, 20, true, (ronde__sampler_options){.batch = 6, .shuffle = true, .seed = 4});
  int64_t ids[20];
  static const int64_t starts[][4] = {{1, 0, 1, 0}, {3, 2, 3, 2}, {2, 4, 3, 0}}; /* asked: epoch, index; got */
  for (int s = 0; s < 3; ++s) {
    ronde__loader *loader =
        rig_loader(r, (ronde__loader_options){.prefetch = s, .first_epoch = starts[s][0], .first_index = starts[s][1]});
    ronde__batch batch = next(loader);
    assert_int_equal(batch.epoch, starts[s][2]);
    assert_int_equal(batch.index, starts[s][3]);
    assert_int_equal(ronde__sampler_epoch(r.sampler, batch.epoch, ids), RONDE_OK);
    for (int i = 0; i < batch.n; ++i) assert_int_equal(id_in(&batch, i), ids[batch.index * 6 + i]);
    ronde__loader_destroy(loader);
  }
  rig_destroy(r);
}

/* Whatever has been read by then; also one that is being read. */
static void test_what_is_skipped_is_left_out(void **state) {
  for (int prefetch = 0; prefetch <= 3; ++prefetch) {
    probe p = sane;
    rig r = rig_make(&p, 23, true, (ronde__sampler_options){.batch = 5});
    ronde__loader *loader = rig_loader(r, (ronde__loader_options){.prefetch = prefetch});
    for (int64_t b = 0; b < 40; ++b) {
      if (b % 7 == 2 || b % 7 == 3 || b % 10 == 4) {
        assert_int_equal(ronde__loader_skip(loader), RONDE_OK);
        continue;
      }
      ronde__batch batch = next(loader);
      assert_int_equal(batch.epoch, 1 + b / 5);
      assert_int_equal(batch.index, b % 5);
      assert_int_equal(id_in(&batch, 0), b % 5 * 5);
    }
    ronde__loader_destroy(loader);
    rig_destroy(r);
  }
}

/* As often as wanted, while the reader goes on; the next batch then is the one that would have come. */
static void test_the_last_batches_come_again(void **state) {
  for (int prefetch = 0; prefetch <= 3; ++prefetch)
    for (int keep = 1; keep <= 4; ++keep) {
      probe p = sane;
      rig r = rig_make(&p, 23, true, (ronde__sampler_options){.batch = 5});
      ronde__loader *loader = rig_loader(r, (ronde__loader_options){.prefetch = prefetch, .keep = keep});
      for (int64_t b = 0; b < 40; b += keep)
        for (int turn = 0; turn < 3; ++turn) {
          if (turn > 0) ronde__loader_again(loader, keep);
          for (int64_t i = b; i < b + keep; ++i) {
            ronde__batch batch = next(loader);
            assert_int_equal(batch.epoch, 1 + i / 5);
            assert_int_equal(batch.index, i % 5);
            assert_int_equal(batch.n, i % 5 == 4 ? 3 : 5);
            assert_int_equal(id_in(&batch, 0), i % 5 * 5);
          }
        }
      ronde__loader_destroy(loader);
      rig_destroy(r);
    }
}

/* What is left out before its turn is not read. */
static void test_what_is_skipped_in_time_is_not_read(void **state) {
  probe p = sane;
  p.blocked = true;
  rig r = rig_make(&p, 60, true, (ronde__sampler_options){.batch = 5});
  ronde__loader *loader = rig_loader(r, (ronde__loader_options){.prefetch = 1});
  while (!atomic_load(&p.waiting)) usleep(100);
  for (int i = 0; i < 11; ++i) assert_int_equal(ronde__loader_skip(loader), RONDE_OK);
  atomic_store(&p.blocked, false);
  ronde__batch batch = next(loader);
  assert_int_equal(batch.index, 11);
  assert_true(atomic_load(&p.n_reads) <= 3); /* the first, this, and one ahead */
  ronde__loader_destroy(loader);
  rig_destroy(r);
}

static void test_targets_instead_of_labels(void **state) {
  probe p = sane;
  rig r = rig_make(&p, 9, false, (ronde__sampler_options){.batch = 9});
  ronde__loader *loader = rig_loader(r, (ronde__loader_options){.rank = 1, .world = 2, .whole = true, .prefetch = 1});
  ronde__batch batch = next(loader);
  assert_int_equal(batch.n, 4);
  assert_null(batch.labels);
  for (int i = 0; i < 4; ++i) assert_true(batch.targets[2 * i] == 5 + i && batch.targets[2 * i + 1] == -1);
  ronde__loader_destroy(loader);
  rig_destroy(r);
}

/* ---- reading ahead ------------------------------------------------------------------------------------------------
 */

static void wait_for_reads(probe *p, int n) {
  for (int i = 0; i < 20000 && p->n_reads < n; ++i) usleep(500);
  usleep(20000); /* long enough for a read too many */
}

static void test_it_reads_ahead_as_far_as_told(void **state) {
  for (int prefetch = 0; prefetch <= 4; prefetch += 2) {
    probe p = sane;
    rig r = rig_make(&p, 100, true, (ronde__sampler_options){.batch = 2});
    ronde__loader *loader = rig_loader(r, (ronde__loader_options){.prefetch = prefetch});
    wait_for_reads(&p, prefetch);
    assert_int_equal(p.n_reads, prefetch);
    ronde__batch batch = next(loader);
    wait_for_reads(&p, prefetch + 1);
    assert_int_equal(p.n_reads, prefetch + 1);
    for (int i = 0; i < 2; ++i) assert_int_equal(id_in(&batch, i), i); /* not overwritten by what came after */
    ronde__loader_destroy(loader);
    rig_destroy(r);
  }
}

static void *release_later(void *user) {
  probe *p = user;
  while (!atomic_load(&p->waiting)) usleep(100);
  usleep(20000);
  atomic_store(&p->blocked, false);
  return NULL;
}

static void test_destroy_ends_in_any_state(void **state) {
  probe p = sane;
  rig r = rig_make(&p, 100, true, (ronde__sampler_options){.batch = 2});
  /* With a full ring, asleep in a drill of an hour, at once, and in the middle of a read. */
  ronde__loader *loader = rig_loader(r, (ronde__loader_options){.prefetch = 3});
  wait_for_reads(&p, 3);
  ronde__loader_destroy(loader);
  loader = rig_loader(r, (ronde__loader_options){.prefetch = 3, .delay_ns = 3600000000000});
  usleep(10000);
  ronde__loader_destroy(loader);
  for (int i = 0; i < 50; ++i) ronde__loader_destroy(rig_loader(r, (ronde__loader_options){.prefetch = 1 + i % 3}));
  atomic_store(&p.blocked, true);
  loader = rig_loader(r, (ronde__loader_options){.prefetch = 1});
  pthread_t releaser;
  assert_int_equal(pthread_create(&releaser, NULL, release_later, &p), 0);
  while (!atomic_load(&p.waiting)) usleep(100);
  ronde__loader_destroy(loader);
  assert_int_equal(pthread_join(releaser, NULL), 0);
  ronde__loader_destroy(NULL);
  rig_destroy(r);
}

static void test_a_drill_delays_each_batch(void **state) {
  probe p = sane;
  rig r = rig_make(&p, 10, true, (ronde__sampler_options){.batch = 2});
  for (int prefetch = 0; prefetch < 2; ++prefetch) {
    uint64_t begin = ronde__now_ns();
    ronde__loader *loader = rig_loader(r, (ronde__loader_options){.prefetch = prefetch, .delay_ns = 10000000});
    for (int b = 0; b < 5; ++b) next(loader);
    assert_true(ronde__now_ns() - begin >= 5 * 10000000ull);
    ronde__loader_destroy(loader);
  }
  rig_destroy(r);
}

/* ---- errors -------------------------------------------------------------------------------------------------------
 */

static void test_errors_come_with_the_batch_they_belong_to(void **state) {
  test_log_start(&lines);
  for (int prefetch = 0; prefetch <= 4; prefetch += 4)
    for (int wrong_label = 0; wrong_label < 2; ++wrong_label) {
      probe p = sane;
      if (wrong_label) p.wrong_label_id = 5;
      else p.fail_at_id = 5;
      rig r = rig_make(&p, 10, true, (ronde__sampler_options){.batch = 2});
      ronde__loader *loader = rig_loader(r, (ronde__loader_options){.prefetch = prefetch});
      next(loader);
      next(loader);
      ronde__batch batch;
      ronde_status wanted = wrong_label ? RONDE_E_INPUT : RONDE_E_LOST, status = ronde__loader_next(loader, &batch);
      assert_int_equal(ronde__loader_next(loader, &batch), wanted); /* and it stays */
      ronde__loader_destroy(loader);
      check_failed(&lines, status, wanted, "probe: ",
                   wrong_label ? "label 5 of example 5 is not within the 5 classes" : "read function failed");
      rig_destroy(r);
    }
}

static void test_error_lines_name_the_rank(void **state) {
  test_log_start(&lines);
  probe p = sane;
  p.fail_at_id = 1;
  rig r = rig_make(&p, 10, true, (ronde__sampler_options){.batch = 2});
  ronde__loader *loader = rig_loader(r, (ronde__loader_options){.rank = 1, .world = 2, .prefetch = 1});
  ronde__batch batch;
  check_failed(&lines, ronde__loader_next(loader, &batch), RONDE_E_LOST, "rank 1: probe", "");
  ronde__loader_destroy(loader);
  rig_destroy(r);
}

/* ---- built-in sets ------------------------------------------------------------------------------------------------
 */

typedef struct files {
  char *folder, *cache, *spec;
} files;

static files files_make(int64_t n) {
  files f = {.folder = test_folder_create()};
  f.cache = ronde__format("%s/cache", f.folder);
  f.spec = ronde__format("mnist:%s", f.folder);
  setenv("RONDE_CACHE_DIR", f.cache, 1);
  test_log_start(&lines);
  test_write_idx_pair(f.folder, "train", n, 2, 3, CLASSES, true);
  test_write_idx_pair(f.folder, "t10k", 3, 2, 3, CLASSES, false);
  return f;
}

static void files_destroy(files f) {
  free(f.spec);
  free(f.cache);
  test_folder_destroy(f.folder);
}

static rig rig_open(files f, bool cache, int64_t batch) {
  rig r;
  const ronde__data_options data_options = {.spec = f.spec, .cache = cache, .normalize = true};
  assert_int_equal(ronde__data_open(&data_options, &r.data), RONDE_OK);
  const ronde__sampler_options options = {
      .n_train = r.data->source.n_examples[0], .repeat = 1, .batch = batch, .shuffle = true, .seed = 2};
  assert_int_equal(ronde__sampler_create(&options, &r.sampler), RONDE_OK);
  return r;
}

static void test_same_bytes_with_and_without_cache_and_prefetch(void **state) {
  files f = files_make(31);
  enum { BATCHES = 12 };
  float x[4][BATCHES * 7 * ELEMS] = {{0}};
  int64_t labels[4][BATCHES * 7] = {{0}};
  for (int form = 0; form < 4; ++form) {
    rig r = rig_open(f, form & 1, 7);
    ronde__loader *loader = rig_loader(r, (ronde__loader_options){.prefetch = form & 2 ? 4 : 0});
    for (int b = 0; b < BATCHES; ++b) {
      ronde__batch batch = next(loader);
      memcpy(&x[form][b * 7 * ELEMS], batch.x, (size_t)batch.n * ELEMS * sizeof(float));
      memcpy(&labels[form][b * 7], batch.labels, (size_t)batch.n * sizeof(int64_t));
    }
    ronde__loader_destroy(loader);
    rig_destroy(r);
    if (form == 0) assert_int_equal(access(f.cache, F_OK), -1); /* without a cache its folder is not touched */
    assert_memory_equal(x[form], x[0], sizeof x[0]);
    assert_memory_equal(labels[form], labels[0], sizeof labels[0]);
  }
  files_destroy(f);
}

/* With the cache off the files are read anew in every epoch: what became of them meanwhile is noticed. */
static void test_without_cache_each_epoch_decodes(void **state) {
  files f = files_make(20);
  rig cached = rig_open(f, true, 10), uncached = rig_open(f, false, 10);
  ronde__loader *of_cached = rig_loader(cached, (ronde__loader_options){0});
  ronde__loader *of_uncached = rig_loader(uncached, (ronde__loader_options){0});
  next(of_cached);
  next(of_uncached);
  test_write_idx_pair(f.folder, "train", 20, 2, 4, CLASSES, true);
  next(of_cached);
  next(of_uncached);
  next(of_cached);
  ronde__batch batch;
  check_failed(&lines, ronde__loader_next(of_uncached, &batch), RONDE_E_INPUT, "train-images-idx3-ubyte.gz", "changed");
  ronde__loader_destroy(of_cached);
  ronde__loader_destroy(of_uncached);
  rig_destroy(cached);
  rig_destroy(uncached);
  files_destroy(f);
}

typedef struct rank_job {
  rig r;
  int rank;
  int64_t sum;
} rank_job;

static void *rank_main(void *user) {
  rank_job *job = user;
  ronde__loader *loader = rig_loader(job->r, (ronde__loader_options){.rank = job->rank, .world = 4, .prefetch = 2});
  for (int64_t b = 0; b < 2 * ronde__sampler_epoch_batches(job->r.sampler); ++b) {
    ronde__batch batch = next(loader);
    for (int64_t i = 0; i < batch.n; ++i) job->sum += batch.labels[i];
    float x[ELEMS];
    int64_t id = b % 3, label;
    const ronde_source *source = &job->r.data->source;
    assert_int_equal(source->read(source->user, RONDE_SPLIT_TEST, &id, 1, x, &label, NULL), RONDE_OK);
  }
  ronde__loader_destroy(loader);
  return NULL;
}

/* Four ranks as threads share one set and one sampler; meant for the thread sanitizer. */
static void test_ranks_share_a_set(void **state) {
  files f = files_make(50);
  for (int cache = 0; cache < 2; ++cache) {
    rig r = rig_open(f, cache, 12);
    rank_job jobs[4];
    pthread_t threads[4];
    for (int rank = 0; rank < 4; ++rank) {
      jobs[rank] = (rank_job){r, rank, 0};
      assert_int_equal(pthread_create(&threads[rank], NULL, rank_main, &jobs[rank]), 0);
    }
    int64_t sum = 0;
    for (int rank = 0; rank < 4; ++rank) {
      assert_int_equal(pthread_join(threads[rank], NULL), 0);
      sum += jobs[rank].sum;
    }
    assert_int_equal(sum, 2 * 10 * (0 + 1 + 2 + 3 + 4));
    rig_destroy(r);
  }
  files_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_global_order_for_every_world),
      cmocka_unit_test(test_a_rank_without_examples_gets_none),
      cmocka_unit_test(test_whole_reads_everything),
      cmocka_unit_test(test_it_starts_where_it_is_told),
      cmocka_unit_test(test_what_is_skipped_is_left_out),
      cmocka_unit_test(test_the_last_batches_come_again),
      cmocka_unit_test(test_what_is_skipped_in_time_is_not_read),
      cmocka_unit_test(test_targets_instead_of_labels),
      cmocka_unit_test(test_it_reads_ahead_as_far_as_told),
      cmocka_unit_test(test_destroy_ends_in_any_state),
      cmocka_unit_test(test_a_drill_delays_each_batch),
      cmocka_unit_test(test_errors_come_with_the_batch_they_belong_to),
      cmocka_unit_test(test_error_lines_name_the_rank),
      cmocka_unit_test(test_same_bytes_with_and_without_cache_and_prefetch),
      cmocka_unit_test(test_without_cache_each_epoch_decodes),
      cmocka_unit_test(test_ranks_share_a_set),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

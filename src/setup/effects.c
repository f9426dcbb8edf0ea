/* What options need to have an effect (config/needs.inc), found out of a job: one row for a need, with the moment from
 * which it is known. What is not met refuses the options that need it. Needs without a row here are settled by those
 * that have no job: launchers, the verbs data and doctor. */
#include "job/split.h"
#include "setup/setup.h"

#include <string.h>

/* ---- known from the options, the last ones with those of --resume ---- */

static bool is_real_run(const ronde__job *job, const ronde_graph *graph) { return !job->options->dry_run; }

static bool has_weights(const ronde__job *job, const ronde_graph *graph) { return !job->options->sim_spans; }

static bool is_simulated(const ronde__job *job, const ronde_graph *graph) {
  return job->options->transport == RONDE__TRANSPORT_SIM;
}

static bool is_measured(const ronde__job *job, const ronde_graph *graph) { return !is_simulated(job, graph); }

static bool has_out(const ronde__job *job, const ronde_graph *graph) { return job->options->out != NULL; }

/* Whether an explicit --resume goes on in the same folder shows when the folder is made. */
static bool has_new_out(const ronde__job *job, const ronde_graph *graph) {
  return !job->options->resume || strcmp(job->options->resume, "auto");
}

static bool has_padding(const ronde__job *job, const ronde_graph *graph) {
  return job->model && job->model->has_padding;
}

static bool has_dropout(const ronde__job *job, const ronde_graph *graph) {
  return job->model && job->model->has_dropout;
}

static bool has_activation(const ronde__job *job, const ronde_graph *graph) {
  return job->model && job->model->has_activation;
}

static bool has_patience(const ronde__job *job, const ronde_graph *graph) {
  return job->options->patience > 0 || job->options->lr_schedule == RONDE__LR_SCHEDULE_PLATEAU;
}

static bool has_data(const ronde__job *job, const ronde_graph *graph) {
  return job->options->data || job->config->verb == RONDE__VERB_PREDICT;
}

/* What predict reads is known once it has found its inputs. */
static bool has_arrays(const ronde__job *job, const ronde_graph *graph) {
  return ronde__data_is_of_arrays(job->options->data) || job->config->verb == RONDE__VERB_PREDICT;
}

static bool has_window(const ronde__job *job, const ronde_graph *graph) {
  return ronde__data_has_window(job->options->data);
}

static bool has_tokens_of_text(const ronde__job *job, const ronde_graph *graph) {
  return ronde__data_is_of_text(job->options->data);
}

static bool has_recordings(const ronde__job *job, const ronde_graph *graph) {
  return ronde__data_is_of_recordings(job->options->data);
}

static bool is_shuffled(const ronde__job *job, const ronde_graph *graph) { return job->options->shuffle; }

static bool has_mask(const ronde__job *job, const ronde_graph *graph) { return job->options->mask > 0; }

static bool may_overlap(const ronde__job *job, const ronde_graph *graph) {
  return ronde__data_is_of_text(job->options->data) && !has_mask(job, graph);
}

static bool has_columns(const ronde__job *job, const ronde_graph *graph) {
  return ronde__data_is_of_columns(job->options->data);
}

static bool has_image_files(const ronde__job *job, const ronde_graph *graph) {
  return ronde__data_is_of_images(job->options->data) || job->config->verb == RONDE__VERB_PREDICT;
}

/* ---- known with the ranks ---- */

static bool has_workers(const ronde__job *job, const ronde_graph *graph) { return job->n_replicas > 1; }
static bool has_parts(const ronde__job *job, const ronde_graph *graph) {
  return !ronde__strategy_reads_whole(job->strategy);
}
static bool has_losses(const ronde__job *job, const ronde_graph *graph) { return job->mpi || job->sim; }
static bool has_ranks(const ronde__job *job, const ronde_graph *graph) { return !ronde__roles_alone(&job->roles); }

/* ---- known with the data ---- */

static bool has_tests(const ronde__job *job, const ronde_graph *graph) { return ronde__job_tests(job).n > 0; }
static bool has_classes(const ronde__job *job, const ronde_graph *graph) {
  return ronde__source_classifies(&job->data->source);
}

static bool has_lengths(const ronde__job *job, const ronde_graph *graph) {
  return job->data->counted[RONDE_SPLIT_TRAIN] != NULL;
}

/* ---- known with the network ---- */

static bool has_op(const ronde_graph *graph, ronde__op_kind kind) {
  for (int i = 0; i < graph->n_nodes; i++)
    if (graph->nodes[i].kind == kind) return true;
  return false;
}

static bool has_batch_norm(const ronde__job *job, const ronde_graph *graph) {
  return has_op(graph, RONDE__OP_BATCH_NORM2D);
}

static bool has_tables(const ronde__job *job, const ronde_graph *graph) { return has_op(graph, RONDE__OP_EMBEDDING); }

static bool has_values(const ronde__job *job, const ronde_graph *graph) { return job->model && job->targets > 0; }

static bool has_cross_entropy(const ronde__job *job, const ronde_graph *graph) {
  return has_op(graph, RONDE__OP_CROSS_ENTROPY);
}

static const struct {
  ronde__known from;
  bool (*is_met)(const ronde__job *job, const ronde_graph *graph);
} table[RONDE__N_NEEDS] = {
    [RONDE__NEED_REAL_RUN] = {RONDE__KNOWN_AT_ONCE, is_real_run},
    [RONDE__NEED_WEIGHTS] = {RONDE__KNOWN_AT_ONCE, has_weights},
    [RONDE__NEED_SIMULATED] = {RONDE__KNOWN_OPTIONS, is_simulated},
    [RONDE__NEED_MEASURED] = {RONDE__KNOWN_OPTIONS, is_measured},
    [RONDE__NEED_OUT] = {RONDE__KNOWN_OPTIONS, has_out},
    [RONDE__NEED_NEW_OUT] = {RONDE__KNOWN_OPTIONS, has_new_out},
    [RONDE__NEED_MODEL_PADDING] = {RONDE__KNOWN_OPTIONS, has_padding},
    [RONDE__NEED_MODEL_DROPOUT] = {RONDE__KNOWN_OPTIONS, has_dropout},
    [RONDE__NEED_MODEL_ACTIVATION] = {RONDE__KNOWN_OPTIONS, has_activation},
    [RONDE__NEED_PATIENCE] = {RONDE__KNOWN_OPTIONS, has_patience},
    [RONDE__NEED_DATA] = {RONDE__KNOWN_OPTIONS, has_data},
    [RONDE__NEED_ARRAYS] = {RONDE__KNOWN_OPTIONS, has_arrays},
    [RONDE__NEED_TEXT] = {RONDE__KNOWN_OPTIONS, has_window},
    [RONDE__NEED_OVERLAP] = {RONDE__KNOWN_OPTIONS, may_overlap},
    [RONDE__NEED_TOKENIZED] = {RONDE__KNOWN_OPTIONS, has_tokens_of_text},
    [RONDE__NEED_RECORDINGS] = {RONDE__KNOWN_OPTIONS, has_recordings},
    [RONDE__NEED_COLUMNS] = {RONDE__KNOWN_OPTIONS, has_columns},
    [RONDE__NEED_IMAGE_FILES] = {RONDE__KNOWN_OPTIONS, has_image_files},
    [RONDE__NEED_WORKERS] = {RONDE__KNOWN_RANKS, has_workers},
    [RONDE__NEED_PARTS] = {RONDE__KNOWN_RANKS, has_parts},
    [RONDE__NEED_LOSSES] = {RONDE__KNOWN_RANKS, has_losses},
    [RONDE__NEED_RANKS] = {RONDE__KNOWN_RANKS, has_ranks},
    [RONDE__NEED_EXCHANGE] = {RONDE__KNOWN_RANKS, has_ranks},
    [RONDE__NEED_MASK] = {RONDE__KNOWN_OPTIONS, has_mask},
    [RONDE__NEED_TESTS] = {RONDE__KNOWN_DATA, has_tests},
    [RONDE__NEED_SHUFFLE] = {RONDE__KNOWN_OPTIONS, is_shuffled},
    [RONDE__NEED_LENGTHS] = {RONDE__KNOWN_DATA, has_lengths},
    [RONDE__NEED_CLASSES] = {RONDE__KNOWN_DATA, has_classes},
    [RONDE__NEED_VALUES] = {RONDE__KNOWN_NETWORK, has_values},
    [RONDE__NEED_BATCH_NORM] = {RONDE__KNOWN_NETWORK, has_batch_norm},
    [RONDE__NEED_TABLES] = {RONDE__KNOWN_NETWORK, has_tables},
    [RONDE__NEED_CROSS_ENTROPY] = {RONDE__KNOWN_NETWORK, has_cross_entropy},
};

ronde_status ronde__check_effects(const ronde__job *job, ronde__known now, const ronde_graph *graph) {
  for (int need = 0; need < RONDE__N_NEEDS; need++)
    if (table[need].is_met && table[need].from == now)
      RONDE_TRY(ronde__config_settle(job->config, (ronde__need)need, table[need].is_met(job, graph)));
  return now == RONDE__KNOWN_OPTIONS ? ronde__config_settle_others(job->config) : RONDE_OK;
}

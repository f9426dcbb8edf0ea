/* From options to a job that ranks can run. */
#ifndef RONDE_SETUP_H
#define RONDE_SETUP_H

#include "state/checkpoint.h"

/* setup.c: resolves and checks everything that can be checked before any rank starts. */
ronde_status ronde__job_create(const ronde_config *config, const ronde_hooks *hooks, ronde__job **job_out);
void ronde__job_destroy(ronde__job *job);
/* As ronde__job_create, of one of several that may be refused. mpi: the transport of an earlier job where ranks are
 * processes, else NULL; the job's where there is one, as long as its `mpi` is not set to NULL again. All ranks call it
 * together; what is refused as RONDE_E_USAGE on one is so on all, and they go on. */
ronde_status ronde__job_try(const ronde_config *config, const ronde_hooks *hooks, ronde__transport *mpi,
                            ronde__job **job_out);

/* agree.c: where each rank is a process of its own, all call it before they train. RONDE_E_USAGE, said in the same words
 * by all, where one is another build, or has other kernels, options or data than rank 0. */
ronde_status ronde__job_agree(const ronde__job *job);
/* Whether all ranks of the transport say so; collective. */
ronde_status ronde__all_agree(ronde__transport *transport, bool own, bool *all_out);
/* Waits until all ranks have heard why they must end: a rank that leaves earlier would be lost to the others. */
void ronde__leave_together(ronde__transport *transport);
/* Whether this process is one of several that MPI has started; where it is not, options that need them are refused. */
ronde_status ronde__joins_mpi(const ronde_config *config, bool *joins_out);
/* Two cards' options, as JSON texts: the first one, by name, that differs, and both values; false where none does. */
bool ronde__options_differ(const char *one, const char *first, char name[32], char own[64], char theirs[64]);

/* ---- the parts of ronde__job_create, in the order in which it calls them ----
 * Each resolves automatic values in the job's config and refuses, by name, what is impossible or can have no effect. */

/* effects.c: refuses what the user set and what can have no effect, as far as that is known by now. graph: of the
 * network; NULL before KNOWN_NETWORK. */
typedef enum ronde__known {
  RONDE__KNOWN_AT_ONCE, /* before anything is read */
  RONDE__KNOWN_OPTIONS, /* with what --resume and --init bring */
  RONDE__KNOWN_RANKS,
  RONDE__KNOWN_DATA,
  RONDE__KNOWN_NETWORK
} ronde__known;
ronde_status ronde__check_effects(const ronde__job *job, ronde__known now, const ronde_graph *graph);
/* run_data.c: without --data, that of the run whose weights --init names, if its record is there. */
ronde_status ronde__take_run_data(ronde__job *job);
/* The optimizer of a strategy that has one of its own, before anything depends on --optimizer; another one is refused. */
ronde_status ronde__settle_optimizer(ronde__job *job);
/* setup_file.c: opens the ONNX file that --model names, as the job's network; */
ronde_status ronde__take_file(ronde__job *job);
/* whether this begins with its own weights: where there is no use for others; */
bool ronde__begins_with_file(const ronde__job *job);
/* these as the job's, but of a file with open dimensions none before it is bound; */
ronde_status ronde__open_file_weights(ronde__job *job);
/* binds it, with the shape of the inputs known; */
ronde_status ronde__bind_file(ronde__job *job, const ronde__shape *shape, const ronde__more_inputs *more);
/* and with the data's shapes in the job: tokens of the file that they do not have. */
void ronde__tokens_of_file(ronde__job *job);
/* Joins MPI where this process is a rank of it. */
ronde_status ronde__join_ranks(ronde__job *job);
/* start.c: the checkpoint that --resume names, if there is one. Where ranks are processes they call together: it is rank
 * 0's, and so is --out. */
ronde_status ronde__find_start(ronde__job *job);
/* Rank 0's bytes on all ranks, which call together: of what a training goes on from. */
ronde_status ronde__start_broadcast(ronde__transport *transport, void *data, size_t bytes);
/* choices.c: the strategy that --choices names takes the place of --strategy auto or measured; why it is the one. */
ronde_status ronde__settle_strategy(ronde__job *job);
ronde_status ronde__set_up_world(ronde__job *job);
/* setup_sim.c: the simulated cluster of --transport sim, and what it replays; with the ranks known. */
ronde_status ronde__set_up_sim(ronde__job *job);
/* setup_losses.c: --on-loss, with the ranks known. */
ronde_status ronde__set_up_losses(ronde__job *job);
/* RONDE_E_USAGE where the replayed spans are of another network or batch. */
ronde_status ronde__check_spans(const ronde__job *job, const ronde_graph *graph);
/* Whether spans of a file that an option names are of the job's network. */
ronde_status ronde__spans_fit(const ronde__job *job, const ronde_graph *graph, const ronde__spans *spans,
                              const char *option, const char *path);
/* Reads --choices into job->choices, on every rank the same; with the world known. */
ronde_status ronde__set_up_choices(ronde__job *job);
/* classes.c: the names of classes in a file of weights. RONDE_E_INPUT where they are no list of texts. */
ronde_status ronde__class_names_read(const ronde__safetensors *file, const char *path, ronde__class_names *names_out);
void ronde__class_names_release(ronde__class_names *names);
/* With the data open and the weights too: the data's labels are those of the weights from now on, by name.
 * RONDE_E_INPUT names classes that the weights do not know, and the remedy. */
ronde_status ronde__set_up_classes(ronde__job *job);
/* Once it is known whether the output layer is new: a line where classes could not be compared by name. */
void ronde__tell_classes(const ronde__job *job);
/* setup_memory.c: what the system lets the processes of all ranks have, with MPI joined; they call together. */
ronde_status ronde__find_rooms(ronde__job *job);
/* RONDE_E_MEMORY where ranks need more than they may have; names what is missing, and a plan that fits. With the stages
 * known. */
ronde_status ronde__check_memory(ronde__job *job, const ronde_graph *graph);
/* Bytes that a stage may need, of limits that ranks do not share; INT64_MAX: any. */
int64_t ronde__memory_of_stage(const ronde__job *job);
/* setup_stages.c: how many stages a network is cut into, with the workers known; */
ronde_status ronde__count_stages(ronde__job *job);
/* and where, with the batch known, so that a stage needs so many bytes at most, if that can be. Nothing where the strategy
 * does not cut. */
ronde_status ronde__set_up_stages(ronde__job *job, const ronde_graph *graph, int64_t bytes);
/* Where a job's network would be cut, by its strategy and number of stages, so that each rank needs so many bytes at
 * most. cut: of ronde__cut_alloc. */
ronde_status ronde__cut_stages(const ronde__job *job, const ronde_graph *graph, int64_t bytes, ronde__cut *cut);
ronde_status ronde__cut_alloc(int n_stages, ronde__cut *cut_out);
void ronde__cut_free(ronde__cut *cut);
/* What a rank would need for stage `stage` of it, of these nodes. */
ronde_status ronde__stage_bytes(const ronde__job *job, const ronde_graph *graph, int stage, int begin, int end,
                                int64_t *bytes_out);
/* setup_split.c: which layers are split, with the batch known. Nothing where the strategy splits none. */
ronde_status ronde__set_up_split(ronde__job *job, const ronde_graph *graph);
/* With data and world known. */
ronde_status ronde__set_up_training(ronde__job *job);
/* drill.c: --drill, with workers and steps known. */
ronde_status ronde__set_up_drills(ronde__job *job);
ronde_status ronde__set_up_checkpoints(ronde__job *job);
/* setup.c: with the shape of the inputs known. RONDE_E_INPUT where weights were trained on inputs of other channels or
 * columns; a warning where on images of another size. */
ronde_status ronde__check_input(const ronde__job *job);
/* Instead of training: one step by itself, of a measurement. */
ronde_status ronde__set_up_stepper(ronde__job *job);

#endif

/* The parts of ronde__job_create, in the order in which it calls them. Each resolves automatic values in the job's config
 * and refuses, by name, what is impossible or can have no effect. */
#ifndef RONDE_SETUP_H
#define RONDE_SETUP_H

#include "train/checkpoint.h"

/* Joins MPI where this process is a rank of it. */
ronde_status ronde__join_ranks(ronde__job *job);
/* start.c: the checkpoint that --resume names, if there is one. Where ranks are processes they call together: it is rank
 * 0's, and so is --out. */
ronde_status ronde__find_start(ronde__job *job);
ronde_status ronde__set_up_world(ronde__job *job);
/* Reads --choices into job->choices, on every rank the same; with the world known. */
ronde_status ronde__set_up_choices(ronde__job *job);
/* classes.c: with the data open and the weights too: the data's labels are those of the weights from now on, by name.
 * RONDE_E_INPUT names classes that the weights do not know, and the remedy. */
ronde_status ronde__set_up_classes(ronde__job *job);
/* Once it is known whether the output layer is new: a line where classes could not be compared by name. */
void ronde__tell_classes(const ronde__job *job);
/* With data and world known. */
ronde_status ronde__set_up_training(ronde__job *job);
ronde_status ronde__set_up_checkpoints(ronde__job *job);
/* Instead of training: one step by itself, of a measurement. */
ronde_status ronde__set_up_stepper(ronde__job *job);

#endif

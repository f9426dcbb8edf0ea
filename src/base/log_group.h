/* The threads of one job. Several may meet the same error; only the first one logs it. */
#ifndef RONDE_LOG_GROUP_H
#define RONDE_LOG_GROUP_H

/* Zeroed to begin with; cleared when none of its threads logs any more. */
typedef struct ronde__log_group {
  char *said[8];
  int n_said;
} ronde__log_group;

/* Of the calling thread; NULL: none (the default). */
void ronde__log_set_group(ronde__log_group *group);
ronde__log_group *ronde__log_get_group(void);
void ronde__log_group_clear(ronde__log_group *group);

#endif

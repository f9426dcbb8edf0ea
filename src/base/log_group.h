/* Threads of one job, of which several may meet the same error by themselves: the first to say it is heard. */
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

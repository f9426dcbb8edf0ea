/* Where in a run its progress is. */
#include "train/rank.h"

bool ronde__progress_gave_up(const ronde__progress *progress, const ronde__job *job) {
  return job->options->patience > 0 && progress->plateau.tests >= job->options->patience;
}

bool ronde__progress_is_over(const ronde__progress *progress, const ronde__job *job) {
  double target = job->options->target_accuracy;
  bool reached = target > 0 && progress->best.value >= target;
  return progress->closed && (progress->step >= job->steps || reached || ronde__progress_gave_up(progress, job));
}

int64_t ronde__progress_epoch(const ronde__progress *progress, const ronde__job *job) {
  int64_t epoch = progress->step / job->steps_per_epoch + 1;
  bool at_end = progress->step > 0 && progress->step % job->steps_per_epoch == 0;
  return at_end && (!progress->closed || ronde__progress_is_over(progress, job)) ? epoch - 1 : epoch;
}

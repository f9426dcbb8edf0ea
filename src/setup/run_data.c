/* The data of the run whose weights are evaluated, from its run.json, where no other data is named. */
#include "setup/setup.h"

#include "io/file.h"
#include "job/job.h"

#include <jansson.h>
#include <stdlib.h>

/* The record of the run that weights are of: beside their file, or in the folder; NULL: there is none. */
static json_t *record_of(const char *weights) {
  char *folder = ronde__is_folder(weights) ? ronde__strdup(weights) : ronde__folder_of(weights);
  char *path = folder ? ronde__format("%s/run.json", folder) : NULL;
  json_t *record = path ? json_load_file(path, 0, NULL) : NULL;
  free(folder);
  free(path);
  return record;
}

ronde_status ronde__take_run_data(ronde__job *job) {
  ronde__options *o = &job->config->options;
  if (o->data || job->hooks.source || !o->init) return RONDE_OK;
  json_t *record = record_of(o->init);
  const char *data = json_string_value(json_object_get(json_object_get(record, "config"), "data"));
  ronde_status status = RONDE_OK;
  if (data) {
    if ((o->data = ronde__strdup(data)))
      ronde__log(RONDE_LOG_INFO, "%s: evaluated on the data of its run, %s", o->init, RONDE__SHOWN(data));
    else status = ronde__fail(RONDE_E_MEMORY, "%s: no memory", o->init);
  }
  json_decref(record);
  return status;
}

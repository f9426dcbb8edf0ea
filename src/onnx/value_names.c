/* The names of a file's values become numbers. */
#include "onnx/import.h"

#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

int ronde__onnx_find_name(const ronde__onnx *file, const char *name) {
  if (ronde__is_empty(name)) return -1;
  const char **at = bsearch(&name, file->names, (size_t)file->n_names, sizeof *file->names, by_text);
  return at ? (int)(at - file->names) : -1;
}

static void add_names(ronde__onnx *file, char *const *names, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!ronde__is_empty(names[i])) file->names[file->n_names++] = names[i];
}

ronde_status ronde__onnx_list_names(ronde__onnx *file) {
  const Onnx__GraphProto *graph = file->model->graph;
  size_t n = graph->n_initializer + graph->n_input + graph->n_output;
  for (size_t i = 0; i < graph->n_node; i++) n += graph->node[i]->n_input + graph->node[i]->n_output;
  if (n > INT32_MAX / 16) return ronde__fail(RONDE_E_INPUT, "%s: it has too many names", file->path);
  RONDE__ALLOC(file->names, n * sizeof *file->names, file->path);
  for (size_t i = 0; i < graph->n_initializer; i++) add_names(file, &graph->initializer[i]->name, 1);
  for (size_t i = 0; i < graph->n_input; i++) add_names(file, &graph->input[i]->name, 1);
  for (size_t i = 0; i < graph->n_output; i++) add_names(file, &graph->output[i]->name, 1);
  for (size_t i = 0; i < graph->n_node; i++) {
    add_names(file, graph->node[i]->input, graph->node[i]->n_input);
    add_names(file, graph->node[i]->output, graph->node[i]->n_output);
  }
  qsort(file->names, (size_t)file->n_names, sizeof *file->names, by_text);
  int kept = 0;
  for (int i = 0; i < file->n_names; i++)
    if (kept == 0 || strcmp(file->names[kept - 1], file->names[i]) != 0) file->names[kept++] = file->names[i];
  file->n_names = kept;
  RONDE__ALLOC(file->constants, (size_t)kept * sizeof *file->constants, file->path);
  RONDE__ALLOC(file->is_buffer, (size_t)kept * sizeof *file->is_buffer, file->path);
  RONDE__ALLOC(file->is_mask, (size_t)kept * sizeof *file->is_mask, file->path);
  RONDE__ALLOC(file->n_readers, (size_t)kept * sizeof *file->n_readers, file->path);
  RONDE__ALLOC(file->reader, (size_t)kept * sizeof *file->reader, file->path);
  RONDE__ALLOC(file->producer, (size_t)kept * sizeof *file->producer, file->path);
  for (int i = 0; i < kept; i++) file->producer[i] = -1;
  return RONDE_OK;
}

/* Whether cases did the same work: what each did, field by field, and where two differ in something that was not varied. */
#ifndef TOOL_AUDIT_H
#define TOOL_AUDIT_H

#include <jansson.h>

/* What a run did, from its run.json: an object with a field for each thing that must agree; docs/record.md has them. command:
 * of `ronde train`; losses [n]: of its steps; clock: by which its steps were timed. */
json_t *tool_audit_of_run(const json_t *run, const json_t *command, const char *clock, const double *losses, int64_t n);
/* What differs between the first case and the others, [{field, text}], one for each field; axes of bench.json: what was varied
 * on purpose. Cases carry "audit", or, where they are other systems', the fields themselves; a field that one of two
 * lacks is not compared. */
json_t *tool_audit_differences(const json_t *cases, const json_t *axes);
/* The fields of all cases, [{field, value}]: "(differs)" where they do. */
json_t *tool_audit_table(const json_t *cases);

#endif

/* ronde doctor --drill, beside what the doctor does otherwise. */
#ifndef TOOL_DOCTOR_DRILL_H
#define TOOL_DOCTOR_DRILL_H

#include "common.h"

/* Goes through the faults of --drill on these hosts, and prints what was survived. RONDE_E_DIFFERENCE if one was not. */
ronde_status tool_doctor_drill(const tool_call *call);

#endif

/* The version, and the commit that it was built from: the one file that is compiled anew for each commit. */
#include "base/base.h"

const char *ronde_version(void) { return RONDE_VERSION; }
const char *ronde__git(void) { return RONDE_GIT; }
const char *ronde__build(void) { return RONDE_VERSION " (" RONDE_GIT ")"; }

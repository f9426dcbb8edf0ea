/* The version, and the commit it was built from. This is the only file that is compiled again for each commit. */
#include "base/base.h"

const char *ronde_version(void) { return RONDE_VERSION; }
const char *ronde__git(void) { return RONDE_GIT; }
const char *ronde__build(void) { return RONDE_VERSION " (" RONDE_GIT ")"; }

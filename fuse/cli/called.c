/* SPDX-License-Identifier: Apache-2.0 */
/* Under which name a person types us: kubectl runs its plugin kubectl-millrace as `kubectl
 * millrace`. */
#include "fuse/cli/cli.h"

#include <string.h>

static bool is_plugin; /* of kubectl */

void cli_called(const char *argv0)
{
    const char *slash = strrchr(argv0, '/'), *name = slash ? slash + 1 : argv0;
    is_plugin = strcmp(name, "kubectl-millrace") == 0;
}

const char *cli_name(void) { return is_plugin ? "kubectl millrace" : "millrace"; }

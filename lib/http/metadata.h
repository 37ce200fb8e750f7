/* SPDX-License-Identifier: Apache-2.0 */
/* metadata — where clouds tell a machine its credentials: whoever chooses a store's URL must not
 * read them through us. Pure. */
#ifndef MILLRACE_LIB_HTTP_METADATA_H
#define MILLRACE_LIB_HTTP_METADATA_H

#include <stdbool.h>
#include <sys/socket.h>

bool http_is_metadata(const struct sockaddr *to);
/* Is the host of the URL such an address, in whatever spelling? A proxy would ask it for us. */
bool http_names_metadata(const char *url);

#endif

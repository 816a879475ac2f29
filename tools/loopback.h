/* SPDX-License-Identifier: BSD-2-Clause */
/* loopback.h - whether loopback's device is left out. */
#ifndef TOOLS_LOOPBACK_H
#define TOOLS_LOOPBACK_H

#include <net/if.h>
#include <stdbool.h>

/* Is there a loopback interface whose RoCE device programs do not see unless they ask for
 * it? Writes its name, and that of an interface whose device they see. */
bool loopback_left_out(char name[IF_NAMESIZE], char other[IF_NAMESIZE]);

#endif

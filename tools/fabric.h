/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric.h - what the commands of urnic fabric share. */
#ifndef TOOLS_FABRIC_H
#define TOOLS_FABRIC_H

#include "fabric/topo.h"

/* A file, - or a rule.  0, or -EINVAL and it has been said why. */
int fabric_read(struct topo *t, const char *file);

/* SIGINT, SIGTERM and SIGHUP as something to be read. */
int fabric_stop_signals(void);

int cmd_fabric_exec(int argc, char **argv);

#endif

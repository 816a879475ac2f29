/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric.h - what the commands of urnic fabric share. */
#ifndef TOOLS_FABRIC_H
#define TOOLS_FABRIC_H

#include <stdbool.h>

#include "fabric/topo.h"

/* A file, - or a rule; and what a second file says of it, or NULL.  0, or -EINVAL and it
 * has been said why. */
int fabric_read(struct topo *t, const char *file, const char *settings);

/* SIGINT, SIGTERM and SIGHUP as something to be read. */
int fabric_stop_signals(void);

/* -errno of plug.h in words. */
const char *fabric_why(int rc);

/* The name of the fabric that is meant, by option or by setting; NULL: a setting is
 * wrong, which has been said. */
const char *fabric_named(const char *option);

/* Prints the fabrics that run; the status to exit with. */
int fabric_list(const char *who, bool json);
/* Does one of that name run here? */
bool fabric_runs(const char *name);

int cmd_fabric_counters(int argc, char **argv);
int cmd_fabric_exec(int argc, char **argv);
int cmd_fabric_link(int argc, char **argv);
int cmd_fabric_pcap(int argc, char **argv);
int cmd_fabric_picture(int argc, char **argv);
int cmd_fabric_status(int argc, char **argv);
int cmd_fabric_sysfs(int argc, char **argv);

#endif

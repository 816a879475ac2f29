/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_cmd.h - what the commands of urnic fabric share. */
#ifndef TOOLS_FABRIC_CMD_H
#define TOOLS_FABRIC_CMD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "fabric/topo.h"

/* Reads a topology from a file, from standard input ("-") or from a rule (fabric/make.h),
 * and its settings from a second file, unless that is NULL.  Returns 0, or -EINVAL after
 * printing the reason. */
int fabric_read(struct topo *t, const char *file, const char *settings);

/* Returns a descriptor that can be read when SIGINT, SIGTERM or SIGHUP comes. */
int fabric_stop_signals(void);

/* Explains a -errno of fabric/port/plug.h. */
const char *fabric_why(int rc);

/* The name of the fabric to use: the option's, or else the setting's.  Returns NULL after
 * printing an error if a setting is wrong. */
const char *fabric_named(const char *option);

/* Prints the fabrics that run; returns the exit status.  who: the command, for errors. */
int fabric_list(const char *who, bool json);
/* Does a fabric of that name run here? */
bool fabric_runs(const char *name);

/* Writes the packets that cross the link at `port` of `node` to a file ("-": standard
 * output) of ERF records.  port 0: all links of the node; node "": all of the fabric;
 * max 0: until a signal comes, or the fabric ends.  Returns the exit status. */
int fabric_capture(const char *who, const char *fabric, const char *node, uint32_t port,
		   const char *file, unsigned long max);

int cmd_fabric_counters(int argc, char **argv);
int cmd_fabric_exec(int argc, char **argv);
int cmd_fabric_link(int argc, char **argv);
int cmd_fabric_pcap(int argc, char **argv);
int cmd_fabric_picture(int argc, char **argv);
int cmd_fabric_status(int argc, char **argv);
int cmd_fabric_sysfs(int argc, char **argv);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs_cmd.h - what urnic sysfs and urnic fabric sysfs share: options, and doing it
 * again.
 */
#ifndef TOOLS_SYSFS_CMD_H
#define TOOLS_SYSFS_CMD_H

#include <argp.h>

#include "driver/sysfs.h"

struct sysfs_job {
	const char *dir;
	long every; /* seconds; 0: once */
};

/* The argument DIR and --follow; a child of the command's parser, with a struct sysfs_job
 * as its input. */
extern const struct argp sysfs_argp;

/* Calls render until a signal or its failure; returns the exit status. */
int sysfs_follow(const struct sysfs_job *job, int (*render)(void *arg), void *arg);

/* Says why dir could not be filled; where: the path, or "". */
void sysfs_tell(const char *who, const char *dir, const char *where, int rc);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* command.h - a program of several commands over rig.h: PROGRAM [OPTION...] COMMAND
 * [SERVER]. */
#ifndef FAULTS_COMMAND_H
#define FAULTS_COMMAND_H

#include <argp.h>

struct command {
	const char *name; /* NULL ends the list */
	int (*run)(void);
};

/* Runs a command and returns its exit status.  --device, --gid, --port, --mode and
 * --events go into opt; take() stores the program's own options.  A command that runs
 * longer than `seconds` counts as hung. */
int command_main(int argc, char **argv, const struct command *commands,
		 const struct argp_option *own, void (*take)(int key, const char *arg),
		 unsigned seconds);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* command.h - a program of several commands over rig.h: PROGRAM [OPTION...] COMMAND
 * [SERVER]. */
#ifndef FAULTS_COMMAND_H
#define FAULTS_COMMAND_H

#include <argp.h>

struct command {
	const char *name; /* NULL ends a list */
	int (*run)(void);
};

/* Beside --device, --gid, --port, --mode and --events, which opt takes, the program has
 * options of its own: take() puts one where it belongs.  A command that runs longer
 * than so many seconds has hung.  Returns its exit status. */
int command_main(int argc, char **argv, const struct command *commands,
		 const struct argp_option *own, void (*take)(int key, const char *arg),
		 unsigned seconds);

#endif

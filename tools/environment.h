/* SPDX-License-Identifier: BSD-2-Clause */
/* environment.h - the environment variables that put urnic's libraries in front of the
 * system's, for the commands that run a program, print the variables or write them down.
 */
#ifndef TOOLS_ENVIRONMENT_H
#define TOOLS_ENVIRONMENT_H

#include <argp.h>

/* Options that set variables of urnic(7) in this process; a child of a command's argp. */
extern const struct argp environment_argp;

/* Checks the settings, finds the libraries and sets the variables in this process, in
 * front of what LD_LIBRARY_PATH and LD_PRELOAD have.  Returns 0, or -errno after
 * `command' has said why. */
int environment_set(const char *command);

/* Calls fn for each of those variables, and for each set variable of urnic(7). */
void environment_each(void (*fn)(const char *name, const char *value, void *arg),
		      void *arg);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h - reads the arguments of a command. */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include <argp.h>

/* As argp_parse(), which ends the program where an argument is wrong. For a long option
 * that there is not the message names the nearest one, if one is near. */
void options_parse(const struct argp *argp, int argc, char **argv, unsigned flags,
		   void *input);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* signals.h - the commands, and what they and the signal handler do. */
#ifndef SIGNALS_TESTS_SIGNALS_H
#define SIGNALS_TESTS_SIGNALS_H

#include "rig.h"

extern unsigned points, seed; /* -n, -r */

/* The commands; each exits with 0 only if everything was as it must be. */
int step(void);
int timer(void);

/* Opens what act_main() and the handler work on, according to --mode=MAIN-HANDLER, and
 * installs the handler of sig. */
void act_open(int sig);
/* Does MAIN once, and takes what has been completed for the handler. */
void act_main(void);
/* Checks that everything still works and that no completion is missing, and closes. */
void act_close(void);
/* How often the handler ran, and how often it was refused. */
void act_say(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* sim_own.h - for sim.c and sim_run.c. */
#ifndef IB_SIM_OWN_H
#define IB_SIM_OWN_H

#define MUST(cond)                                                                       \
	do {                                                                             \
		if (!(cond))                                                             \
			sim_die(__FILE__, __LINE__, #cond);                              \
	} while (0)

_Noreturn void sim_die(const char *file, int line, const char *what);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* undumpable.c - for LD_PRELOAD: no other process may look into the program. */
#include <sys/prctl.h>

static void __attribute__((constructor)) hide(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* undumpable.c - for LD_PRELOAD: makes the process undumpable, so that no other process
 * may access its memory. */
#include <sys/prctl.h>

static void __attribute__((constructor)) hide(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

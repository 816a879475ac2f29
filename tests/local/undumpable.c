/* SPDX-License-Identifier: BSD-2-Clause */
/* undumpable.c - for LD_PRELOAD: a program into which no other may look. */
#include <sys/prctl.h>

static void __attribute__((constructor)) hide(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_sanitizer.c - lets programs run that are built with AddressSanitizer.
 *
 * Its shared runtime refuses to run behind preloaded libraries: they might stand between
 * the program and malloc().  These do not.  The runtime takes its defaults from this
 * function, whichever is found first, and lets ASAN_OPTIONS and a function of the
 * program's own replace them. */
#include "preload.h"

PUBLIC const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}

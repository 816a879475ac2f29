/* SPDX-License-Identifier: BSD-2-Clause */
/* aside.h - a call on a stack of its own: the caller's may be replaced meanwhile. */
#ifndef DIRECT_ASIDE_H
#define DIRECT_ASIDE_H

#include <stdbool.h>

/* False: there is no memory for a stack, and fn was not called. */
bool aside_call(void (*fn)(void));

#endif

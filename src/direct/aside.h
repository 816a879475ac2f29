/* SPDX-License-Identifier: BSD-2-Clause */
/* aside.h - runs a function on a stack of its own, because the caller's stack may be
 * replaced meanwhile. */
#ifndef DIRECT_ASIDE_H
#define DIRECT_ASIDE_H

#include <stdbool.h>

/* Calls fn on a new stack. False: no memory for one, and fn was not called. */
bool aside_call(void (*fn)(void));

#endif

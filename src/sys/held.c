/* SPDX-License-Identifier: BSD-2-Clause */
/* held.c - the thread's state of held.h. */
#include "sys/held.h"

__thread struct held held;

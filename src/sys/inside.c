/* SPDX-License-Identifier: BSD-2-Clause */
/* inside.c - the thread's count of inside.h. */
#include "sys/inside.h"

__thread int inside_calls;

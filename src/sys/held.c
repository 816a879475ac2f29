/* SPDX-License-Identifier: BSD-2-Clause */
/* held.c - see held.h. */
#include "sys/held.h"

__thread struct held held;

/* SPDX-License-Identifier: BSD-2-Clause */
/* inside.c - what inside.h counts for each thread. */
#include "sys/inside.h"

__thread int inside_calls, inside_held, inside_was;

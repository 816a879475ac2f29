/* SPDX-License-Identifier: BSD-2-Clause */
/* attach.h - for src/abi: puts the checks that the user asks for (URNIC_CHECK) in front
 * of a new context's operations, and begins them with the first. Returns 0, or -EINVAL
 * after an error line: they cannot be had as the user wants them. */
#ifndef CHECK_ATTACH_H
#define CHECK_ATTACH_H

#include <infiniband/verbs.h>

int check_attach(struct verbs_context *v);

#endif

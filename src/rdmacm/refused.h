/* SPDX-License-Identifier: BSD-2-Clause */
/* refused.h - the line of the log about a call that fails at once: what was asked, why it
 * is refused, and what to do. (What fails later is an event, and event.c logs it.) */
#ifndef RDMACM_REFUSED_H
#define RDMACM_REFUSED_H

#include "rdmacm/id.h"

/* Returns -EINVAL, and keeps why for cma_say_refused(). NULL: forgets it. */
int cma_refuse(const char *why);
/* As cma_refuse(): the call is not for an id in that state. */
int cma_not_now(const struct cma_id *id);
/* a: the address that the call names, or NULL. id NULL: the call would have made one. */
void cma_say_refused(const struct cma_id *id, const char *call, const struct sockaddr *a,
		     int rc);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* inbox.h - a bounded queue of copied datagrams. */
#ifndef DRIVER_INBOX_H
#define DRIVER_INBOX_H

#include <stdbool.h>

#include "net/dgram.h"

struct inbox;

int inbox_open(struct inbox **out);
void inbox_close(struct inbox *box);

bool inbox_put(struct inbox *box, const struct dgram *d); /* false: full */

/* Takes at most n, oldest first; valid until the next inbox_take(). */
unsigned inbox_take(struct inbox *box, struct dgram *v, unsigned n);
bool inbox_empty(const struct inbox *box);

#endif

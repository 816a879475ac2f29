/* SPDX-License-Identifier: BSD-2-Clause */
/* inbox.c - see inbox.h. There are two trays: one is filled while the other, which the
 * datagrams given out point into, is emptied. */
#include "driver/inbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TRAY_DGRAMS = 512, TRAY_BYTES = 1 << 20, ALIGN = 8 };

struct tray {
	unsigned n, next; /* d[next..n-1] wait */
	size_t used;
	struct dgram d[TRAY_DGRAMS];
	uint8_t bytes[TRAY_BYTES];
};

struct inbox {
	struct tray *in, *out, tray[2];
};

bool inbox_put(struct inbox *box, const struct dgram *d)
{
	struct tray *t = box->in;
	uint8_t *at = t->bytes + t->used;
	struct dgram *copy;

	if (t->n == TRAY_DGRAMS || d->len > TRAY_BYTES - t->used)
		return false;
	copy = &t->d[t->n++];
	*copy = *d;
	copy->one = (struct iovec){ at, d->len };
	copy->iovcnt = 1;
	for (unsigned i = 0; i < d->iovcnt; i++) {
		memcpy(at, d->iov[i].iov_base, d->iov[i].iov_len);
		at += d->iov[i].iov_len;
	}
	t->used += (d->len + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if (t->used > TRAY_BYTES)
		t->used = TRAY_BYTES;
	return true;
}

unsigned inbox_take(struct inbox *box, struct dgram *v, unsigned n)
{
	struct tray *t = box->out;
	unsigned got = 0;

	if (inbox_empty(box)) /* the usual case of every turn: write nothing */
		return 0;
	if (t->next == t->n) {
		t->n = t->next = 0;
		t->used = 0;
		box->out = box->in;
		box->in = t;
		t = box->out;
	}
	for (; got < n && t->next < t->n; got++) {
		v[got] = t->d[t->next++];
		v[got].iov = &v[got].one;
	}
	return got;
}

bool inbox_empty(const struct inbox *box)
{
	return box->in->n == 0 && box->out->next == box->out->n;
}

int inbox_open(struct inbox **out)
{
	struct inbox *box = calloc(1, sizeof(*box));

	if (!box)
		return -ENOMEM;
	box->in = &box->tray[0];
	box->out = &box->tray[1];
	*out = box;
	return 0;
}

void inbox_close(struct inbox *box)
{
	free(box);
}

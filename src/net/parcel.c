/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/parcel.h"

#include <errno.h>

#include "sys/alloc.h"
#include "sys/guard.h"

int dgram_flatten(uint8_t *to, const struct dgram *d)
{
	size_t left = d->len;

	for (unsigned i = 0; i < d->iovcnt && left > 0; i++) {
		size_t n = d->iov[i].iov_len < left ? d->iov[i].iov_len : left;

		if (guard_copy(to, d->iov[i].iov_base, n))
			return -EFAULT;
		to += n;
		left -= n;
	}
	memset(to, 0, left);
	return 0;
}

struct parcel *parcel_make(const struct dgram *d)
{
	struct parcel *p = turn_alloc(sizeof(*p) + d->len);

	if (!p)
		return NULL;
	if (dgram_flatten(p->bytes, d)) {
		turn_free(p);
		return NULL;
	}
	list_init(&p->node);
	p->due = 0;
	p->after = 0;
	p->note[0] = '\0';
	p->d = *d;
	p->d.seg = 0;
	p->d.iov = &p->d.one;
	p->d.iovcnt = 1;
	p->d.one = (struct iovec){ p->bytes, d->len };
	return p;
}

void parcel_show(struct parcel *p, struct dgram *v)
{
	*v = p->d;
	v->iov = &v->one;
}

void parcels_free(struct list *head)
{
	list_for_safe(n, head)
	{
		list_del(n);
		turn_free(container_of(n, struct parcel, node));
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ddp.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "wire/be.h"

enum { TAGGED = 0x80, LAST = 0x40, VERSION = 0x03 }; /* control */

/* RFC 5041, 4.2 */
struct tagged {
	uint8_t control, ulp;
	be32_t stag;
	be64_t to;
};

/* RFC 5041, 4.3 */
struct untagged {
	uint8_t control, ulp;
	be32_t ulp_word;
	be32_t qn, msn, mo;
};

static_assert(sizeof(struct tagged) == DDP_TAGGED_LEN, "RFC 5041");
static_assert(sizeof(struct untagged) == DDP_UNTAGGED_LEN, "RFC 5041");

size_t ddp_build(uint8_t *at, const struct ddp *d)
{
	uint8_t control = (uint8_t)((d->tagged ? TAGGED : 0) | (d->last ? LAST : 0) |
				    (d->version & VERSION));
	struct tagged t = { control, d->ulp, be32(d->stag), be64(d->to) };
	struct untagged u = { control,	   d->ulp,	 be32(d->ulp_word),
			      be32(d->qn), be32(d->msn), be32(d->mo) };

	if (d->tagged) {
		memcpy(at, &t, sizeof(t));
		return sizeof(t);
	}
	memcpy(at, &u, sizeof(u));
	return sizeof(u);
}

int ddp_parse(struct ddp *d, const uint8_t *at, size_t n)
{
	struct untagged u;
	struct tagged t;

	if (n < 2)
		return -EBADMSG;
	*d = (struct ddp){
		.tagged = at[0] & TAGGED,
		.last = at[0] & LAST,
		.version = at[0] & VERSION,
		.ulp = at[1],
	};
	if (n < (d->tagged ? sizeof(t) : sizeof(u)))
		return -EBADMSG;
	if (d->tagged) {
		memcpy(&t, at, sizeof(t));
		d->stag = get_be32(t.stag);
		d->to = get_be64(t.to);
		return sizeof(t);
	}
	memcpy(&u, at, sizeof(u));
	d->ulp_word = get_be32(u.ulp_word);
	d->qn = get_be32(u.qn);
	d->msn = get_be32(u.msn);
	d->mo = get_be32(u.mo);
	return sizeof(u);
}

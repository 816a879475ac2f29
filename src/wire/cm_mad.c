/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/cm_mad.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "wire/be.h"
#include "wire/bits.h"

enum { BASE_VERSION = 1, CLASS_CM = 7, CLASS_VERSION = 2, METHOD_SEND = 3 };

/* 13.4.3: the header in front of each message. */
struct mad_hdr {
	uint8_t base_version, class, class_version, method;
	be16_t status, specific;
	be64_t tid;
	be16_t attr_id, rsvd;
	be32_t attr_mod;
};

static_assert(sizeof(struct mad_hdr) == MAD_HDR, "MAD");

struct message {
	const char *name;
	uint16_t attr, at, len;
};

static const struct message messages[CM_TYPES] = {
#define MSG(name, attr, at, len) [CM_##name] = { #name, attr, at, len },
#define FIELD(...)
#define BYTES(...)
#include "wire/cm_mad.def"
#undef MSG
#undef FIELD
#undef BYTES
};

/* Private data reaches to the message's end: no byte after its beginning is left over. */
#define MSG(name, attr, at, len)                                                         \
	static_assert(MAD_HDR + (at) + (len) == MAD_LEN, #name);                         \
	static_assert((len) <= CM_PRIVATE_MAX, #name);
#define FIELD(...)
#define BYTES(...)
#include "wire/cm_mad.def"
#undef MSG
#undef FIELD
#undef BYTES

struct field {
	uint8_t type;
	uint16_t off, size; /* of the member in struct cm_msg */
	uint16_t bit, bits; /* position and length in the message */
	uint8_t shift;
	bool bytes;
};

#define MEMBER(m) offsetof(struct cm_msg, m), sizeof(((struct cm_msg *)0)->m)

static const struct field fields[] = {
#define MSG(...)
#define FIELD(msg, member, byte, b, n, s)                                                \
	{ CM_##msg, MEMBER(member), (byte)*8 + (b), n, s, false },
#define BYTES(msg, member, byte, n)                                                      \
	{ CM_##msg, MEMBER(member), (byte)*8, (n)*8, 0, true },
#include "wire/cm_mad.def"
#undef MSG
#undef FIELD
#undef BYTES
};

enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

void cm_mad_build(uint8_t mad[MAD_LEN], const struct cm_msg *m)
{
	const struct message *msg = &messages[m->type];
	struct mad_hdr hdr = {
		.base_version = BASE_VERSION,
		.class = CLASS_CM,
		.class_version = CLASS_VERSION,
		.method = METHOD_SEND,
		.tid = be64(m->tid),
		.attr_id = be16(msg->attr),
		.attr_mod = be32(m->attr_mod),
	};
	uint8_t *body = mad + MAD_HDR;

	memset(mad, 0, MAD_LEN);
	memcpy(mad, &hdr, sizeof(hdr));
	for (unsigned i = 0; i < FIELDS; i++) {
		const struct field *f = &fields[i];
		const uint8_t *from = (const uint8_t *)m + f->off;

		if (f->type != m->type)
			continue;
		if (f->bytes)
			memcpy(body + f->bit / 8, from, f->bits / 8u);
		else
			bits_put(body, f->bit, f->bits,
				 member_get(from, f->size) >> f->shift);
	}
	memcpy(body + msg->at, m->private, msg->len);
}

static int find_message(uint16_t attr, enum cm_type *out)
{
	for (unsigned i = 0; i < CM_TYPES; i++) {
		if (messages[i].attr != attr)
			continue;
		*out = (enum cm_type)i;
		return 0;
	}
	return -EPROTO;
}

static void get_fields(struct cm_msg *m, const uint8_t *body)
{
	for (unsigned i = 0; i < FIELDS; i++) {
		const struct field *f = &fields[i];
		uint8_t *to = (uint8_t *)m + f->off;

		if (f->type != m->type)
			continue;
		if (f->bytes)
			memcpy(to, body + f->bit / 8, f->bits / 8u);
		else
			member_set(to, f->size,
				   member_get(to, f->size) |
					   bits_get(body, f->bit, f->bits) << f->shift);
	}
}

int cm_mad_parse(struct cm_msg *m, const void *mad, size_t len)
{
	const uint8_t *body = (const uint8_t *)mad + MAD_HDR;
	struct mad_hdr hdr;
	enum cm_type type;

	if (len != MAD_LEN)
		return -EPROTO;
	memcpy(&hdr, mad, sizeof(hdr));
	if (hdr.base_version != BASE_VERSION || hdr.class != CLASS_CM ||
	    hdr.class_version != CLASS_VERSION || hdr.method != METHOD_SEND ||
	    find_message(get_be16(hdr.attr_id), &type))
		return -EPROTO;
	memset(m, 0, sizeof(*m));
	m->type = type;
	m->tid = get_be64(hdr.tid);
	m->attr_mod = get_be32(hdr.attr_mod);
	get_fields(m, body);
	memcpy(m->private, body + messages[type].at, messages[type].len);
	if (m->info_len > CM_INFO_MAX)
		m->info_len = CM_INFO_MAX;
	return 0;
}

size_t cm_private_len(enum cm_type type)
{
	return messages[type].len;
}

const char *cm_type_name(enum cm_type type)
{
	return messages[type].name;
}

bool cm_mad_refusal(const struct cm_msg *m, struct cm_msg *a)
{
	*a = (struct cm_msg){
		.tid = m->tid,
		.local_id = m->remote_id,
		.remote_id = m->local_id,
	};
	switch (m->type) {
	case CM_REQ:
		a->type = CM_REJ;
		a->reason = CM_REJ_INVALID_SERVICE;
		return true;
	case CM_SIDR_REQ:
		a->type = CM_SIDR_REP;
		a->service_id = m->service_id;
		a->reason = CM_SIDR_UNSUPPORTED;
		return true;
	case CM_REP:
	case CM_RTU:
		a->type = CM_REJ;
		a->about = m->type == CM_REP ? CM_ABOUT_REP : CM_ABOUT_NONE;
		a->reason = CM_REJ_INVALID_ID;
		return true;
	case CM_DREQ:
		a->type = CM_DREP;
		return true;
	case CM_MRA:
	case CM_REJ:
	case CM_DREP:
	case CM_SIDR_REP:
	case CM_TYPES:
		break;
	}
	return false;
}

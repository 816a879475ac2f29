/* SPDX-License-Identifier: BSD-2-Clause */
/* extcap_feed.c - takes the blocks of processes together into one file: see extcap.h.
 * Each process numbers its interfaces from 0; in the file they get other numbers. */
#include <errno.h>
#include <string.h>

#include "extcap.h"
#include "net/pcapng.h"

uint8_t *feed_room(struct feed *f, size_t *room)
{
	*room = sizeof(f->buf) - f->used;
	return f->buf + f->used;
}

static void take_note(struct feed *f, const uint8_t *block)
{
	char note[PCAPNG_TEXT_MAX + 1];

	pcapng_stats_note(block, note);
	for (char *c = note; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	snprintf(f->note, sizeof(f->note), "%s", note);
}

static int put_block(const uint8_t *block, size_t len, FILE *to)
{
	return fwrite(block, 1, len, to) == len ? 0 : -errno;
}

/* Gives the block the interface's number in the file. */
static int renumber(struct feed *f, uint8_t *block)
{
	uint32_t own = pcapng_interface_of(block);

	if (own >= f->interfaces)
		return -EPROTO;
	pcapng_set_interface(block, f->interface[own]);
	return 0;
}

static int take_block(struct feed *f, uint32_t type, uint8_t *block, size_t len,
		      uint32_t *next, FILE *to)
{
	int rc = 0;

	switch (type) {
	case PCAPNG_SECTION: /* the file has its own */
		return 0;
	case PCAPNG_INTERFACE:
		if (f->interfaces == FEED_INTERFACES)
			return -EPROTO;
		f->interface[f->interfaces++] = (*next)++;
		break;
	case PCAPNG_PACKET:
		rc = renumber(f, block);
		f->packets += !rc;
		break;
	case PCAPNG_STATS:
		rc = renumber(f, block);
		take_note(f, block);
		break;
	default:
		return -EPROTO;
	}
	return rc ? rc : put_block(block, len, to);
}

int feed_came(struct feed *f, size_t n, uint32_t *next, FILE *to)
{
	size_t at = 0;
	long len = 1;
	int rc = 0;

	f->used += n;
	while (!rc && len > 0 && at < f->used) {
		uint32_t type;

		len = pcapng_block(f->buf + at, f->used - at, FEED_BLOCK, &type);
		if (len < 0)
			return (int)len;
		if (len > 0)
			rc = take_block(f, type, f->buf + at, (size_t)len, next, to);
		at += (size_t)len;
	}
	f->used -= at;
	memmove(f->buf, f->buf + at, f->used);
	return rc;
}

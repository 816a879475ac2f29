/* SPDX-License-Identifier: BSD-2-Clause */
/* queue.c - a file's queue of messages that the program has not read yet. */
#include <stdlib.h>
#include <string.h>

#include "fabric/umad/umad_own.h"

void queue_message(struct umad_file *file, const struct umad_hdr *hdr, const void *data,
		   size_t data_len)
{
	struct umad *u = file->port->u;
	struct unread *m = NULL;

	if (file->unreads < UMAD_UNREAD && file->unread_bytes < UMAD_MESSAGE_MAX)
		m = malloc(sizeof(*m) + UMAD_HDR + data_len);
	if (!m) {
		file->lost++;
		return;
	}
	m->len = UMAD_HDR + data_len;
	memcpy(m->msg, hdr, UMAD_HDR);
	memcpy(m->msg + UMAD_HDR, data, data_len);
	((struct umad_hdr *)(void *)m->msg)->length = (uint32_t)m->len;
	file->unread_bytes += m->len;
	list_add_tail(&file->unread, &m->node);
	if (file->unreads++ == 0)
		u->ops->readable(u->ctx, file->owner);
}

const void *umad_peek(const struct umad_file *file, size_t *len)
{
	const struct unread *m;

	if (!file->unreads)
		return NULL;
	m = container_of(file->unread.next, struct unread, node);
	*len = m->len;
	return m->msg;
}

void umad_pop(struct umad_file *file)
{
	struct unread *m = container_of(file->unread.next, struct unread, node);

	list_del(&m->node);
	file->unread_bytes -= m->len;
	file->unreads--;
	free(m);
}

void umad_refuse(struct umad_file *file, const void *msg, size_t len, uint32_t status)
{
	struct umad_hdr hdr;
	size_t data = len - UMAD_HDR;

	if (len < UMAD_HDR)
		return;
	memcpy(&hdr, msg, UMAD_HDR);
	hdr.status = status;
	queue_message(file, &hdr, (const char *)msg + UMAD_HDR,
		      data < MAD_HEAD ? data : MAD_HEAD);
}

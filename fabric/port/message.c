/* SPDX-License-Identifier: BSD-2-Clause */
/* message.c - see message.h. */
#include "fabric/port/message.h"

#include "fabric/umad/umad.h"

enum {
	REQUEST = sizeof(struct plug_request),
	WORD = sizeof(uint32_t),
	CA = sizeof(struct plug_ca),
	PORT = sizeof(struct plug_port),
	GID = 16,
	AGENT = sizeof(struct plug_register),
	TEXT_MAX = 1 << 30,
};

/* clang-format off */
static const struct msg_row rows[PLUG_TYPES] = {
	/* type             name        least     most              at once       descriptors */
	[PLUG_REQUEST]  = { "REQUEST",  REQUEST,  REQUEST,          REQUEST,      1 },
	[PLUG_STATUS]   = { "STATUS",   WORD,     WORD,             WORD,         1 },
	[PLUG_CA_IS]    = { "CA_IS",    CA,       CA,               CA,           0 },
	[PLUG_PORT_IS]  = { "PORT_IS",  PORT,     PORT,             PORT,         0 },
	[PLUG_GID_IS]   = { "GID_IS",   GID,      GID,              GID,          0 },
	[PLUG_KICK]     = { "KICK",     0,        0,                0,            0 },
	[PLUG_MAD]      = { "MAD",      UMAD_HDR, UMAD_MESSAGE_MAX, PLUG_AT_ONCE, 0 },
	[PLUG_AGENT]    = { "AGENT",    AGENT,    AGENT,            AGENT,        1 },
	[PLUG_AGENT_IS] = { "AGENT_IS", WORD,     WORD,             WORD,         0 },
	[PLUG_TEXT]     = { "TEXT",     0,        TEXT_MAX,         PLUG_AT_ONCE, 0 },
	[PLUG_RECORDS]  = { "RECORDS",  1,        PLUG_AT_ONCE,     PLUG_AT_ONCE, 0 },
};
/* clang-format on */

const struct msg_table plug_table = { 'f', PLUG_VERSION, PLUG_TYPES, rows };

int plug_say(int fd, enum plug_type type, const void *body, size_t len, int pass,
	     bool wait)
{
	const struct iovec part = { (void *)(uintptr_t)body, len };

	return msg_send(fd, &plug_table, type, &part, 1, &pass, pass >= 0, wait);
}

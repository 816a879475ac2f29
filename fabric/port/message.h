/* SPDX-License-Identifier: BSD-2-Clause */
/* message.h - the messages between a program and the process of a fabric; sys/msg.h
 * carries them, docs/dev/fabric.md has their order. Bodies that are not here are in
 * plug.h. */
#ifndef FABRIC_PORT_MESSAGE_H
#define FABRIC_PORT_MESSAGE_H

#include <stdint.h>

#include "fabric/port/plug.h"
#include "sys/msg.h"

enum plug_type {
	PLUG_REQUEST = 1, /* the first message of a connection: struct plug_request */
	PLUG_STATUS,	  /* the answer, if there is no other: 0 or an errno (uint32_t) */
	PLUG_CA_IS,	  /* to PLUG_CA: struct plug_ca */
	PLUG_PORT_IS,  /* to PLUG_PORT, and news to whom is attached: struct plug_port */
	PLUG_GID_IS,   /* to PLUG_FIND: 16 bytes */
	PLUG_KICK,     /* between whom is attached and the fabric; no body */
	PLUG_MAD,      /* of a file, both ways: struct ib_user_mad and a MAD */
	PLUG_AGENT,    /* of a file, with a socket for the answer: struct plug_register */
	PLUG_AGENT_IS, /* the answer: the agent's number, 0 if it is no more; or -errno */
	PLUG_TEXT,     /* control: a request, an answer */
	PLUG_RECORDS,  /* of a capture: whole ERF records */
	PLUG_TYPES
};

extern const struct msg_table plug_table;

enum plug_op {
	PLUG_CA = 1,
	PLUG_PORT,
	PLUG_ISSM,
	PLUG_OPEN,
	PLUG_CONTROL,
	PLUG_CAPTURE,
	PLUG_ATTACH,
	PLUG_FIND,
	PLUG_SERVICE,
};

struct plug_request {
	uint32_t op, port;
	uint32_t slot; /* ATTACH, SERVICE: the upper bits of the program's QP numbers */
	uint32_t zero;
	uint64_t service; /* SERVICE: the service ID of connection management */
	uint8_t ip[16];	  /* FIND: an IP address; IPv4 as ::ffff:a.b.c.d */
	char hca[PLUG_HCA];
};

/* A message with one body, and the descriptor `pass` (-1: none). Returns as msg_send()
 * does. */
int plug_say(int fd, enum plug_type type, const void *body, size_t len, int pass,
	     bool wait);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* server_own.h - what the files of the fabric's end share; for fabric/port alone. */
#ifndef FABRIC_PORT_SERVER_OWN_H
#define FABRIC_PORT_SERVER_OWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "fabric/fabric.h"
#include "fabric/port/answer.h"
#include "fabric/port/message.h"
#include "fabric/port/plug.h"
#include "fabric/umad/umad.h"
#include "sys/list.h"
#include "sys/user.h"

/* epoll's data.ptr points to a struct watch, which says what the descriptor is. */
enum watch_kind { WATCH_LISTEN, WATCH_STOP, WATCH_CONN, WATCH_PIPE };
struct watch {
	enum watch_kind kind;
};

enum conn_kind {
	CONN_NEW,
	CONN_FILE,
	CONN_ISSM,
	CONN_CONTROL,
	CONN_CAPTURE,
	CONN_ATTACHED,
	CONN_SERVICE,
	CONN_DEAD
};

struct plug_conn {
	struct watch sock, pipe;
	struct list node;  /* server.fresh, files, issms, controls,
			    * captures, attaches, services or dead */
	struct list ready; /* server.ready, while c->file has messages */
	enum conn_kind kind;
	int fd;
	uid_t uid;
	pid_t pid;
	uint64_t deadline; /* CONN_NEW: when its first request must have come */
	uint32_t ca;	   /* index of the adapter; CONN_CAPTURE: of the node */
	uint8_t port;
	struct umad_file *file;
	struct capture *capture;
	struct attached *attached;
	uint16_t slot; /* CONN_ATTACHED, CONN_SERVICE: the program's slot */
	uint64_t service;
	struct list groups; /* CONN_ATTACHED: its multicast memberships (group.c) */
	unsigned ngroups;
	bool woken; /* CONN_ATTACHED: has new packets; attach_flush() wakes the program */
	bool full;  /* the socket has no room; epoll watches for EPOLLOUT */
	int pipe_fd;  /* CONN_ISSM: the pipe's write end; otherwise -1 */
	bool is_open; /* CONN_ISSM: a process has the path open */
};

struct plug_server {
	struct user user; /* the fabric's owner */
	const struct topo *topo;
	struct fabric *fabric;
	struct umad *umad;
	uint64_t now;
	int epoll, listener;
	bool deaf;    /* epoll does not watch the listener: no connection can be taken */
	bool behind;  /* deaf, because the closer (sys/closer.h) is full */
	uint32_t tid; /* of the fabric's last own request: the lower half */
	struct watch listen_watch, stop_watch;
	struct list fresh, files, issms, controls, captures, attaches, services;
	struct list dead, ready;
	struct list leaving; /* group.c: memberships with a Delete not yet answered */
	unsigned nleaving;
	uint64_t leaving_next; /* no later than the first time in `leaving` */
	plug_answer *answer;   /* NULL: control connections are refused */
	void *answer_ctx;
	_Alignas(8) uint8_t room[MSG_AT_ONCE_MAX]; /* read_one()'s buffer: a body */
};

/* conn.c */
/* Accepts one connection, if its user may use this fabric. */
void plugged_in(struct plug_server *s);
/* Listens again when the closer of descriptors has room.  Returns false if the closer
 * still has trouble; the caller then calls again soon. */
bool plugged_closes(struct plug_server *s);
void plugged_event(struct plug_server *s, struct plug_conn *c, uint32_t events);
/* Closes the connection.  c itself is freed at the end of the loop's round. */
void plugged_end(struct plug_server *s, struct plug_conn *c);
void plugged_flush(struct plug_server *s, struct plug_conn *c);
void plugged_free(struct plug_conn *c);
/* Makes epoll watch for room in the socket if c->full, and stop watching if not.  Returns
 * false on an error of epoll. */
bool plugged_watch(struct plug_server *s, struct plug_conn *c);

/* request.c: the first message of a connection, those of a file (CONN_FILE), and a
 * request on a control connection. */
void plug_first(struct plug_server *s, struct plug_conn *c, struct msg *m);
void plug_mad(struct plug_server *s, struct plug_conn *c, const struct msg *m);
void plug_agent(struct plug_conn *c, const struct msg *m);
void plug_asked(struct plug_server *s, struct plug_conn *c, const struct msg *m);
/* Answers a first message with an errno, and closes the connection. */
void plug_refuse(struct plug_server *s, struct plug_conn *c, int rc);

/* capture.c: packets at c's node, or at all nodes if `all`; c->port 0: at all ports. */
bool capture_begin(struct plug_conn *c, bool all);
void capture_end(struct plug_conn *c);
void capture_packet(struct plug_server *s, uint32_t node, uint8_t port, uint8_t vl,
		    const struct mad_pkt *pkt);
void capture_flush(struct plug_server *s, struct plug_conn *c);
void capture_flush_all(struct plug_server *s);

/* attach.c.  Attaches c's program to its port under the slot.  Returns a descriptor of
 * the memory shared with the program, or -EINVAL, -EADDRINUSE, -ENOMEM or the like. */
int attach_begin(struct plug_server *s, struct plug_conn *c, uint32_t slot);
void attach_end(struct plug_conn *c);
/* The operations take, late and done of struct fabric_ops. */
enum fabric_take attach_take(struct plug_server *s, uint32_t ca, uint8_t port,
			     const struct mad_pkt *pkt);
void attach_late(struct plug_server *s, uint32_t ca, uint8_t port,
		 const struct mad_pkt *pkt);
void attach_done(struct fabric_data *d);
/* Gives a MAD to QP1 of the program that has this slot at the port; slot 0: to the QP1 of
 * any program there.  Returns false if there is no such program. */
bool attach_mad(struct plug_server *s, uint32_t ca, uint8_t port, uint16_t slot,
		const struct mad_pkt *pkt);
/* Takes packets that programs have sent; returns false if there were none. */
bool attach_run(struct plug_server *s);
/* Wakes programs that have new packets, and tells them of changes to their port. */
void attach_flush(struct plug_server *s);
/* Tells programs whether they have to kick the fabric when they send. */
void attach_sleeps(struct plug_server *s, bool sleeps);
/* Has a program sent packets that attach_run() has not taken? */
bool attach_has(const struct plug_server *s);

/* request.c: fills *to with the port's present attributes. */
void plug_about_port(struct plug_server *s, uint32_t ca, uint8_t port,
		     struct plug_port *to);

/* service.c.  Gives the service in req to c's program.  Returns 0, -EINVAL (slot) or
 * -EADDRINUSE. */
int service_begin(struct plug_server *s, struct plug_conn *c,
		  const struct plug_request *req);
/* Gives a MAD to the attached program that it is for.  Returns false if the MAD is not
 * for attached programs; the caller then gives it to the umad files. */
bool service_deliver(struct plug_server *s, uint32_t ca, uint8_t port,
		     const struct mad_pkt *pkt);
/* Writes the port's first GID. */
void service_own_gid(const struct plug_server *s, uint32_t ca, uint8_t port,
		     uint8_t gid[16]);
/* Finds the GID of the port with the IP address.  Returns false if no port has it. */
bool service_find(struct plug_server *s, const uint8_t ip[16], uint8_t gid[16]);

/* group.c.  Notes what c's program asks of the SA.  Returns true if the fabric has
 * answered the request itself; pkt then does not go to the SA. */
bool group_asked(struct plug_server *s, struct plug_conn *c, const struct mad_pkt *pkt);
/* Notes an answer of the SA to the program with this slot. */
void group_answered(struct plug_server *s, uint32_t ca, uint8_t port, uint16_t slot,
		    const struct mad_pkt *pkt);
/* c's program has ended: leaves its groups on its behalf. */
void group_end(struct plug_server *s, struct plug_conn *c);
/* Sends Deletes that are due again; group_next() says when the next one is due. */
void group_run(struct plug_server *s);
uint64_t group_next(const struct plug_server *s);
void group_free(struct plug_server *s);

/* issm.c */
/* Takes over pipe_fd, the write end of a pipe.  Returns false if pipe_fd is no pipe or
 * cannot be watched. */
bool issm_begin(struct plug_server *s, struct plug_conn *c, int pipe_fd);
/* Sets or clears the port's IsSM if the path has been opened or closed. */
void issm_look(struct plug_server *s, struct plug_conn *c);
void issm_look_all(struct plug_server *s); /* only paths that are not known to be open */
void issm_end(struct plug_server *s, struct plug_conn *c);

#endif

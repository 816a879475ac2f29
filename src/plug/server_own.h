/* SPDX-License-Identifier: BSD-2-Clause */
/* server_own.h - between the files of the fabric's end. */
#ifndef PLUG_SERVER_OWN_H
#define PLUG_SERVER_OWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "fabric/fabric.h"
#include "plug/answer.h"
#include "plug/message.h"
#include "plug/plug.h"
#include "sys/list.h"
#include "sys/user.h"
#include "umad/umad.h"

/* What epoll watches. */
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

struct conn {
	struct watch sock, pipe;
	struct list node;  /* server.fresh, files, issms, controls,
			    * captures, attaches, services or dead */
	struct list ready; /* server.ready: its file has messages */
	enum conn_kind kind;
	int fd;
	uid_t uid;
	pid_t pid;
	uint64_t deadline; /* CONN_NEW: for its request */
	uint32_t ca;	   /* index of its adapter, or of a capture's node */
	uint8_t port;
	struct umad_file *file;
	struct capture *capture;
	struct attached *attached;
	uint16_t slot; /* CONN_ATTACHED, CONN_SERVICE: whose it is */
	uint64_t service;
	struct list groups; /* CONN_ATTACHED: what it is in, or wants to be */
	unsigned ngroups;
	bool woken;   /* CONN_ATTACHED: something has come for it */
	bool full;    /* its socket has no room: EPOLLOUT is watched */
	int pipe_fd;  /* CONN_ISSM: the write end; -1 */
	bool is_open; /* ... somebody has the path open */
};

struct plug_server {
	struct user user; /* whose the fabric is */
	const struct topo *topo;
	struct fabric *fabric;
	struct umad *umad;
	uint64_t now;
	int epoll, listener;
	bool deaf;    /* nobody can be let in: not listening */
	bool behind;  /* .. as the closer is full */
	uint32_t tid; /* of the last request that is the fabric's own */
	struct watch listen_watch, stop_watch;
	struct list fresh, files, issms, controls, captures, attaches, services;
	struct list dead, ready;
	struct list leaving; /* group.c: what ports are to be out of */
	unsigned nleaving;
	uint64_t leaving_next; /* when one of them is due, or before */
	plug_answer *answer;   /* NULL: no control connections */
	void *answer_ctx;
	uint8_t room[MESSAGE_LONG + 64]; /* for one message */
};

/* conn.c */
void plugged_in(struct plug_server *s);
/* False: what others have sent cannot be closed as it comes, so call this again. */
bool plugged_closes(struct plug_server *s);
void plugged_event(struct plug_server *s, struct conn *c, uint32_t events);
void plugged_end(struct plug_server *s, struct conn *c); /* is freed at the turn's end */
void plugged_flush(struct plug_server *s, struct conn *c);
void plugged_free(struct conn *c);
/* Looks whether its socket has room, which c->full says, or not any more. */
bool plugged_watch(struct plug_server *s, struct conn *c);

/* request.c: the first message of a connection, and what a file says. */
void plug_first(struct plug_server *s, struct conn *c, const struct plug_request *req,
		int passed);
void plug_said(struct plug_server *s, struct conn *c, const uint8_t *msg, size_t len,
	       int passed);

void plug_asked(struct plug_server *s, struct conn *c, const uint8_t *msg, size_t len);

/* capture.c: of a node, or of all where `all` is set; port 0 is all of its ports. */
bool capture_begin(struct conn *c, bool all);
void capture_end(struct conn *c);
void capture_packet(struct plug_server *s, uint32_t node, uint8_t port, uint8_t vl,
		    const struct mad_pkt *pkt);
void capture_flush(struct plug_server *s, struct conn *c);
void capture_flush_all(struct plug_server *s);

/* attach.c.  A program at c's port has that slot: a descriptor of the memory that is
 * shared with it, or -errno. */
int attach_begin(struct plug_server *s, struct conn *c, uint32_t slot);
void attach_end(struct conn *c);
/* See struct fabric_ops. */
enum fabric_take attach_take(struct plug_server *s, uint32_t ca, uint8_t port,
			     const struct mad_pkt *pkt);
void attach_late(struct plug_server *s, uint32_t ca, uint8_t port,
		 const struct mad_pkt *pkt);
void attach_done(struct fabric_data *d);
/* A message for QP1 of the program that has this slot at the port; slot 0: of any.
 * False: there is none. */
bool attach_mad(struct plug_server *s, uint32_t ca, uint8_t port, uint16_t slot,
		const struct mad_pkt *pkt);
bool attach_run(struct plug_server *s);	  /* what programs have sent; false: nothing */
void attach_flush(struct plug_server *s); /* they are told */
/* Programs kick from now on, or not. */
void attach_sleeps(struct plug_server *s, bool sleeps);
bool attach_has(const struct plug_server *s); /* .. something to take */

/* request.c: what there is to say of a port. */
void plug_about_port(struct plug_server *s, uint32_t ca, uint8_t port,
		     struct plug_port *to);

/* service.c.  0 or -errno: c is this service's from now on. */
int service_begin(struct plug_server *s, struct conn *c, const struct plug_request *req);
/* A message to QP1 of an adapter's port is for a program that is attached there. */
bool service_deliver(struct plug_server *s, uint32_t ca, uint8_t port,
		     const struct mad_pkt *pkt);
/* A port's first GID. */
void service_own_gid(const struct plug_server *s, uint32_t ca, uint8_t port,
		     uint8_t gid[16]);
/* The GID of the port with that address.  False: there is none. */
bool service_find(struct plug_server *s, const uint8_t ip[16], uint8_t gid[16]);

/* group.c.  c's program sends that to the SA.  True: the fabric has answered it. */
bool group_asked(struct plug_server *s, struct conn *c, const struct mad_pkt *pkt);
/* .. and that is what the SA says to the program with this slot. */
void group_answered(struct plug_server *s, uint32_t ca, uint8_t port, uint16_t slot,
		    const struct mad_pkt *pkt);
void group_end(struct plug_server *s, struct conn *c);
/* The SA is asked again; when that will be. */
void group_run(struct plug_server *s);
uint64_t group_next(const struct plug_server *s);
void group_free(struct plug_server *s);

/* issm.c */
bool issm_begin(struct plug_server *s, struct conn *c, int pipe_fd);
void issm_look(struct plug_server *s, struct conn *c);
void issm_look_all(struct plug_server *s); /* at those that are not open */
void issm_end(struct plug_server *s, struct conn *c);

#endif

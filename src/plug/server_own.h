/* SPDX-License-Identifier: BSD-2-Clause */
/* server_own.h - declarations shared by the files of the fabric's side. */
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

/* Kinds of descriptors that epoll watches. */
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
	/* in one of the server's lists fresh, files, issms, controls, captures,
	 * attaches, services, dead */
	struct list node;
	struct list ready; /* in server.ready while its file has messages */
	enum conn_kind kind;
	int fd;
	uid_t uid;
	pid_t pid;
	uint64_t deadline; /* CONN_NEW: ns; its request must have come by then */
	uint32_t ca;	   /* index of its adapter, or of the node that it captures */
	uint8_t port;
	struct umad_file *file;
	struct capture *capture;
	struct attached *attached;
	uint16_t slot; /* CONN_ATTACHED, CONN_SERVICE: the program's slot */
	uint64_t service;
	/* CONN_ATTACHED: multicast groups that it has joined or wants to join */
	struct list groups;
	unsigned ngroups;
	bool woken;   /* CONN_ATTACHED: packets have come since its last kick */
	bool full;    /* its socket is full: EPOLLOUT is watched */
	int pipe_fd;  /* CONN_ISSM: the write end, or -1 */
	bool is_open; /* CONN_ISSM: some process has the path open */
};

struct plug_server {
	struct user user; /* user that runs the fabric */
	const struct topo *topo;
	struct fabric *fabric;
	struct umad *umad;
	uint64_t now;
	int epoll, listener;
	bool deaf;    /* not listening: there is no room for a connection */
	bool behind;  /* not listening, because the closer is full */
	uint32_t tid; /* of the fabric's own last request */
	struct watch listen_watch, stop_watch;
	struct list fresh, files, issms, controls, captures, attaches, services;
	struct list dead, ready;
	struct list leaving; /* group.c: groups that ports are to leave */
	unsigned nleaving;
	uint64_t leaving_next; /* ns; when the first of them is due, or earlier */
	plug_answer *answer;   /* NULL: no control connections */
	void *answer_ctx;
	uint8_t room[MESSAGE_LONG + 64]; /* scratch for one message */
};

/* Functions of conn.c: */
void plugged_in(struct plug_server *s);
/* Returns false if received descriptors cannot be closed as fast as they come; it must
 * then be called again. */
bool plugged_closes(struct plug_server *s);
void plugged_event(struct plug_server *s, struct conn *c, uint32_t events);
/* c is freed at the end of the turn */
void plugged_end(struct plug_server *s, struct conn *c);
void plugged_flush(struct plug_server *s, struct conn *c);
void plugged_free(struct conn *c);
/* Watches whether c's socket has room again, or no longer, as c->full says. */
bool plugged_watch(struct plug_server *s, struct conn *c);

/* Functions of request.c: the first message of a connection, and messages of a file. */
void plug_first(struct plug_server *s, struct conn *c, const struct plug_request *req,
		int passed);
void plug_said(struct plug_server *s, struct conn *c, const uint8_t *msg, size_t len,
	       int passed);

void plug_asked(struct plug_server *s, struct conn *c, const uint8_t *msg, size_t len);

/* capture.c: captures a node, or all nodes if `all`; port 0: all of its ports. */
bool capture_begin(struct conn *c, bool all);
void capture_end(struct conn *c);
void capture_packet(struct plug_server *s, uint32_t node, uint8_t port, uint8_t vl,
		    const struct mad_pkt *pkt);
void capture_flush(struct plug_server *s, struct conn *c);
void capture_flush_all(struct plug_server *s);

/* attach.c: attaches the program with that slot at c's port. Returns a descriptor of the
 * memory shared with it, or -errno. */
int attach_begin(struct plug_server *s, struct conn *c, uint32_t slot);
void attach_end(struct conn *c);
/* See fabric_ops.take. */
enum fabric_take attach_take(struct plug_server *s, uint32_t ca, uint8_t port,
			     const struct mad_pkt *pkt);
void attach_late(struct plug_server *s, uint32_t ca, uint8_t port,
		 const struct mad_pkt *pkt);
void attach_done(struct fabric_data *d);
/* Passes a message for QP1 to the program with this slot at the port; slot 0: to any.
 * Returns false if there is none. */
bool attach_mad(struct plug_server *s, uint32_t ca, uint8_t port, uint16_t slot,
		const struct mad_pkt *pkt);
/* moves packets that programs have sent; false: there were none */
bool attach_run(struct plug_server *s);
/* kicks the programs that packets have come for */
void attach_flush(struct plug_server *s);
/* Asks programs to kick from now on, or not to. */
void attach_sleeps(struct plug_server *s, bool sleeps);
bool attach_has(const struct plug_server *s); /* has any program sent a packet? */

/* request.c: describes a port for an answer. */
void plug_about_port(struct plug_server *s, uint32_t ca, uint8_t port,
		     struct plug_port *to);

/* service.c: gives the service to c. Returns 0 or -errno. */
int service_begin(struct plug_server *s, struct conn *c, const struct plug_request *req);
/* Passes a MAD for QP1 of an adapter's port to the program attached there. Returns false
 * if there is none for it. */
bool service_deliver(struct plug_server *s, uint32_t ca, uint8_t port,
		     const struct mad_pkt *pkt);
/* Gets a port's first GID. */
void service_own_gid(const struct plug_server *s, uint32_t ca, uint8_t port,
		     uint8_t gid[16]);
/* Finds the GID of the port with that IP address. Returns false if there is none. */
bool service_find(struct plug_server *s, const uint8_t ip[16], uint8_t gid[16]);

/* group.c: c's program sends pkt to the SA. Returns true if the fabric has answered
 * it. */
bool group_asked(struct plug_server *s, struct conn *c, const struct mad_pkt *pkt);
/* The SA sends pkt to the program with this slot. */
void group_answered(struct plug_server *s, uint32_t ca, uint8_t port, uint16_t slot,
		    const struct mad_pkt *pkt);
void group_end(struct plug_server *s, struct conn *c);
/* Repeats requests to the SA to leave groups; group_next() says when that is due. */
void group_run(struct plug_server *s);
uint64_t group_next(const struct plug_server *s);
void group_free(struct plug_server *s);

/* Functions of issm.c: */
bool issm_begin(struct plug_server *s, struct conn *c, int pipe_fd);
void issm_look(struct plug_server *s, struct conn *c);
void issm_look_all(struct plug_server *s); /* looks at those whose path is not open */
void issm_end(struct plug_server *s, struct conn *c);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* name.h - the numbers of slots, and the name of a slot up to SLOT_NAMED, or of a claim
 * for a higher one (reserve.h): an abstract SOCK_SEQPACKET address. */
#ifndef HOST_NAME_H
#define HOST_NAME_H

#include <stdint.h>
#include <sys/types.h>

enum {
	SLOT_FIRST = 1,
	SLOT_LAST = 1022,
	SLOT_NAMED = 768, /* higher ones are the reserve's */
};

/* Listens on slot's name. Returns the descriptor; -EADDRINUSE: the name is taken;
 * -errno. */
int name_listen(uint16_t slot);

/* Connects to slot's name. Returns the descriptor; -ESRCH: nobody listens there;
 * -EAGAIN: the backlog is full, or descriptors have run out; -EACCES ... */
int name_connect(uint16_t slot);

/* Closes a listening descriptor so that its name is free at once. */
void name_let_go(int fd);

/* As name_listen() and name_connect(), for any abstract name. */
enum { NAME_MAX_LEN = 40 };
int name_listen_at(const char *name);
int name_connect_to(const char *name);

/* A socket of that type, without a name, that takes no descriptors. Returns the
 * descriptor or -errno. */
int name_socket(int type);
/* Gives fd the name. The kernel names the sender of each message then. Returns 0;
 * -EADDRINUSE; -ENAMETOOLONG ... */
int name_bind(int fd, const char *name);
/* Makes fd lead to the name. Returns as name_connect() does. */
int name_lead(int fd, const char *name);

/* Turns off SCM_CREDENTIALS, by which the kernel names the sender of each message at
 * listening sockets and those accepted from them. */
void name_hide_senders(int fd);

#endif

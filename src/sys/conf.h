/* SPDX-License-Identifier: BSD-2-Clause */
/* conf.h - configuration: environment over file (URNIC_CONF, ini) over default.
 *
 * conf.def is the one table of keys: the parser, the man page and the error
 * messages come from it.  A wrong key or value is an error that names it.
 */
#ifndef SYS_CONF_H
#define SYS_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum conf_local {
	CONF_LOCAL_OFF,
	CONF_LOCAL_PIPE,
	CONF_LOCAL_VM,
	CONF_LOCAL_AUTO,
	CONF_LOCAL_MAP,
};

enum conf_link { CONF_LINK_UDP, CONF_LINK_RAW };

enum conf_share { CONF_SHARE_USER, CONF_SHARE_HOST, CONF_SHARE_AUTO };

struct conf {
	char log[160];	       /* URNIC_LOG: level[:file] */
	char fault[512];       /* URNIC_FAULT: link/fault.h has the grammar */
	char pcap[256];	       /* URNIC_PCAP: file, %p is the process id */
	char devices[256];     /* URNIC_DEVICES: comma-separated interfaces; "" all */
	char identity[160];    /* URNIC_IDENTITY: a preset or key=value,... */
	enum conf_local local; /* URNIC_LOCAL */
	bool one_gid;	       /* URNIC_ONE_GID: only GIDs 0 and 1 (NCCL) */
	uint16_t udp_port;     /* URNIC_UDP_PORT: 4791 */
	enum conf_link link;   /* URNIC_LINK: packets by UDP or packet sockets */
	enum conf_share share; /* URNIC_SHARE: whose urnic may hold that port */
	bool mpa_crc;	       /* URNIC_MPA_CRC: on iWARP connections */
	char fabric[64];       /* URNIC_FABRIC: NAME or UID:NAME */
	char hca[72];	       /* URNIC_HCA: an adapter of it; "" none */
};

/* Read once per process, and the log set up by it; later calls give the same.
 * NULL after an error, which has been written to stderr as one line that names
 * the key. */
const struct conf *conf_get(void);

/* Where a value comes from; path is the file's, where there is one. */
struct conf_origin {
	enum { CONF_DEFAULT, CONF_FILE, CONF_ENV } from[16];
	char path[256];
};

/* What conf_get() does, each time anew.  0, or -errno with why in err. */
enum { CONF_ERR = 512 };
int conf_read(struct conf *conf, struct conf_origin *origin, char err[CONF_ERR]);

struct conf_key {
	const char *key, *env, *type, *dflt, *text;
};

/* The table, for help and tests; NULL after the last. */
const struct conf_key *conf_key(unsigned i);

/* 0, or -EINVAL with why in err: is value good for the key?  For options. */
int conf_check(const char *key, const char *value, char err[CONF_ERR]);

/* For the tools: one line a key, with where its value comes from.  0 or -errno
 * after the line about the error. */
int conf_print(FILE *to);

#endif

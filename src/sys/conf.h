/* SPDX-License-Identifier: BSD-2-Clause */
/* conf.h - configuration: the environment wins over the file (URNIC_CONF, ini format),
 * the file over the default.
 *
 * conf.def is the one table of keys: the parser, the help and the error messages come
 * from it; tests compare the man page with it.  An error names the wrong key or value. */
#ifndef SYS_CONF_H
#define SYS_CONF_H

#include <stdbool.h>
#include <stdint.h>

enum conf_local {
	CONF_LOCAL_OFF,
	CONF_LOCAL_PIPE,
	CONF_LOCAL_VM,
	CONF_LOCAL_AUTO,
	CONF_LOCAL_MAP,
};

enum conf_link { CONF_LINK_UDP, CONF_LINK_RAW };

enum conf_share { CONF_SHARE_USER, CONF_SHARE_HOST, CONF_SHARE_AUTO };

enum conf_format { CONF_FORMAT_TEXT, CONF_FORMAT_JSON };

struct conf {
	char log[160]; /* URNIC_LOG: level[:file] */
	enum conf_format log_format;
	char check[256]; /* URNIC_CHECK: see sys/checks.h */
	bool check_exit, check_abort;
	char check_suppress[256]; /* a file, or "" */
	char fault[512];	  /* URNIC_FAULT: net/fault.h has the grammar */
	char pcap[256];		  /* URNIC_PCAP: file, %p is the process id */
	char devices[256];	  /* URNIC_DEVICES: comma-separated interfaces; "" all */
	char identity[160];	  /* URNIC_IDENTITY: a preset or key=value,... */
	char like[64];		  /* URNIC_LIKE: sys/like.h */
	char order[128];	  /* URNIC_ORDER: sys/order_spec.h */
	enum conf_local local;	  /* URNIC_LOCAL */
	bool map_threads;	  /* URNIC_MAP_THREADS */
	bool one_gid;		  /* URNIC_ONE_GID: only GIDs 0 and 1 (NCCL) */
	uint16_t udp_port;	  /* URNIC_UDP_PORT: 4791 */
	enum conf_link link;	  /* URNIC_LINK: packets by UDP or packet sockets */
	enum conf_share share;	  /* which user's urnic may hold that port */
	bool mpa_crc;		  /* URNIC_MPA_CRC: on iWARP connections */
	char fabric[64];	  /* URNIC_FABRIC: NAME or UID:NAME */
	char hca[72];		  /* an adapter of the fabric; "" none */
};

/* Reads the configuration and sets up the log, once per process; later calls return the
 * same.  Returns NULL after an error, which was written to stderr as one line that names
 * the key. */
const struct conf *conf_get(void);

/* Where each value comes from; path is the file's, if there is one. */
struct conf_origin {
	enum { CONF_DEFAULT, CONF_FILE, CONF_ENV } from[32];
	char path[256];
};

/* Reads the configuration anew, as conf_get() does once.  Returns 0, or -errno with the
 * reason in err. */
enum { CONF_ERR = 512 };
int conf_read(struct conf *conf, struct conf_origin *origin, char err[CONF_ERR]);

struct conf_key {
	const char *key, *env, *type, *dflt, *text;
};

/* The i-th row of the table, for help and tests; NULL after the last. */
const struct conf_key *conf_key(unsigned i);

/* Checks whether value is valid for key, for command line options.  Returns 0, or -EINVAL
 * with the reason in err. */
int conf_check(const char *key, const char *value, char err[CONF_ERR]);

/* The value of the i-th key, as the file would have it. */
enum { CONF_VALUE = 512 };
const char *conf_value(const struct conf *conf, unsigned i, char buf[CONF_VALUE]);

#endif

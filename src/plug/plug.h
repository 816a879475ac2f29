/* SPDX-License-Identifier: BSD-2-Clause */
/* plug.h - how a program stands at an adapter of a fabric: the messages, and the
 * program's end.  docs/fabric.md has the whole.
 *
 * A fabric is named NAME or UID:NAME, an adapter as topo_find_ca() finds it.
 * Calls return 0 or what they say, or -errno: -ENOENT: no such fabric runs; -EACCES:
 * somebody else has its name; -ENODEV: it has no such adapter or port; -EIO: it
 * ended, or does not speak our language; -ETIMEDOUT: it does not answer; -EHOSTDOWN: its
 * process is stopped.
 */
#ifndef PLUG_PLUG_H
#define PLUG_PLUG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PLUG_VERSION = 4,
	PLUG_HCA = 72,
	PLUG_CA_NAME = 20,
	PLUG_PKEYS = 128,
	PLUG_GUIDS = 32,
	PLUG_NAME = 40,
	PLUG_HDR = 64, /* sizeof(struct ib_user_mad) */
};

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

/* The first message of a connection. */
struct plug_request {
	uint32_t version, op, port;
	uint32_t slot; /* ATTACH, SERVICE: the upper bits of the program's QP numbers */
	uint64_t service; /* SERVICE: its ID, of connection management */
	uint8_t ip[16];	  /* FIND: an IP address; IPv4 mapped */
	char hca[PLUG_HCA];
};

/* The answers; status is 0 or an errno, and then nothing else is set. */
struct plug_ca {
	uint32_t status;
	uint32_t ports;
	uint64_t guid, sys_guid;
	uint32_t vendor, device;
	char name[PLUG_CA_NAME]; /* what programs call it */
	char desc[65];
};

struct plug_port {
	uint32_t status;
	uint32_t state, phys_state, rate; /* Gb/s */
	uint32_t lid, lmc, sm_lid, sm_sl, cap_mask;
	uint64_t prefix, guid;
	uint32_t pkeys;
	uint16_t pkey[PLUG_PKEYS];
	/* As in PortInfo: */
	uint32_t mtu, mtu_cap, width, speed, ext_speed, vls, subnet_timeout;
	uint32_t reregisters;	    /* how often a subnet manager asked for that */
	uint64_t guids[PLUG_GUIDS]; /* the port's first; 0: none */
	uint32_t address, pad;	    /* IPv4, in host order; 0: none */
};

struct plug_found {
	uint32_t status, pad;
	uint8_t gid[16];
};

/* What the fabric says to a program that is attached; the program only ever kicks. */
enum plug_news { PLUG_KICK = 1, PLUG_NEWS };

struct plug_port_news {
	uint32_t say, pad;
	struct plug_port port;
};

/* In front of what a program sends on its file. */
enum plug_say { PLUG_MAD = 1, PLUG_REGISTER, PLUG_UNREGISTER };

struct plug_register {
	uint32_t say;
	uint32_t agent;				/* UNREGISTER */
	uint8_t class, version, rmpp, own_rmpp; /* own: by the program */
	uint32_t oui;
	uint64_t methods[2];
};

/* ... and its answer: the agent's number, or -errno. */
struct plug_registered {
	int32_t agent;
};

int plug_ca(const char *fabric, const char *hca, struct plug_ca *out);
/* The fabrics that run in this network namespace, as URNIC_FABRIC is to name them. */
void plug_each_running(void (*fn)(void *ctx, const char *fabric), void *ctx);
/* All of them with commas, or "none"; cut at size. */
void plug_running(char *out, size_t size);
/* What such a refusal of an adapter is to say, rc being negative. */
const char *plug_why(int rc);
int plug_port(const char *fabric, const char *hca, uint32_t port, struct plug_port *out);

/* A descriptor that is a file; messages on it are struct ib_user_mad and MAD. */
int plug_open(const char *fabric, const char *hca, uint32_t port);

/* A descriptor that stands for an issm file: the port is a subnet manager's while
 * somebody has opened the path.  Both last as long as the process. */
int plug_issm(const char *fabric, const char *hca, uint32_t port, char *path,
	      size_t size);

/* Of a file.  The agent's number. */
int plug_register(int fd, const struct plug_register *reg);
int plug_unregister(int fd, uint32_t agent);
int plug_send(int fd, const void *msg, size_t len);

/* The next message, without waiting: its length.  -EWOULDBLOCK: there is none;
 * -ENOSPC: it is longer than size, its length is in *need, as much as fits is in
 * msg, and it stays. */
long plug_recv(int fd, void *msg, size_t size, size_t *need);

/* A descriptor for requests to the fabric itself: each is a text, and so is its
 * answer, which plug_tell() waits for and the caller frees.  -EOPNOTSUPP: it takes
 * none. */
int plug_control(const char *fabric);
int plug_tell(int fd, const char *ask, char **answer, size_t *len);

/* A descriptor from which plug_recv() takes what crosses the links of a node ("" all) or
 * the one at its port (0 all): ERF records of type 21, whole ones in each message. */
int plug_capture(const char *fabric, const char *node, uint32_t port);

/* A descriptor by which the fabric and a program kick each other, and that tells of the
 * port; and in *memory what they share (link/adapter_ring.h), sealed.  -EADDRINUSE: the
 * slot is another program's. */
int plug_attach(const char *fabric, const char *hca, uint32_t port, uint32_t slot,
		int *memory);
int plug_kick(int fd); /* without waiting */

/* The GID of the port that has this IP address (IPv4 mapped), as IP over InfiniBand
 * would learn it; or an IPv6 address that is a port's GID.  -EHOSTUNREACH: no port's. */
int plug_find(const char *fabric, const char *hca, uint32_t port, const uint8_t ip[16],
	      uint8_t gid[16]);

/* A descriptor that stands for a service of connection management at that port: as long
 * as it is open, requests for it go to the program attached there that has the slot.
 * -EADDRINUSE: it is another slot's. */
int plug_service(const char *fabric, const char *hca, uint32_t port, uint32_t slot,
		 uint64_t service);

/* Is that a good name of a fabric?  0 or -EINVAL. */
int plug_check_name(const char *fabric);

#endif

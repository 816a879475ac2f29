/* SPDX-License-Identifier: BSD-2-Clause */
/* plug.h - how a program uses an adapter of a fabric: the messages, and the program's
 * side. docs/fabric.md describes the whole.
 *
 * A fabric is named NAME or UID:NAME, an adapter as for topo_find_ca(). Calls return 0
 * or what their comment says, or -errno: -ENOENT: no such fabric runs; -EACCES: another
 * user has its name; -ENODEV: it has no such adapter or port; -EIO: it has ended, or
 * speaks another protocol; -ETIMEDOUT: it does not answer; -EHOSTDOWN: its process is
 * stopped.
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

/* First message of a connection. */
struct plug_request {
	uint32_t version, op, port;
	uint32_t slot;	  /* ATTACH, SERVICE: upper bits of the program's QP numbers */
	uint64_t service; /* SERVICE: service ID of connection management */
	uint8_t ip[16];	  /* FIND: an IP address; IPv4 as ::ffff:a.b.c.d */
	char hca[PLUG_HCA];
};

/* The answers. If status, an errno, is not 0, nothing else is set. */
struct plug_ca {
	uint32_t status;
	uint32_t ports;
	uint64_t guid, sys_guid;
	uint32_t vendor, device;
	char name[PLUG_CA_NAME]; /* name by which programs call it */
	char desc[65];
};

struct plug_port {
	uint32_t status;
	uint32_t state, phys_state, rate; /* rate: Gb/s */
	uint32_t lid, lmc, sm_lid, sm_sl, cap_mask;
	uint64_t prefix, guid;
	uint32_t pkeys;
	uint16_t pkey[PLUG_PKEYS];
	/* Coded as in PortInfo: */
	uint32_t mtu, mtu_cap, width, speed, ext_speed, vls, subnet_timeout;
	/* how often a subnet manager has asked clients to reregister */
	uint32_t reregisters;
	uint64_t guids[PLUG_GUIDS]; /* those of the port, from its first; 0: none */
	uint32_t address, pad;	    /* IPv4, in host order; 0: none */
};

struct plug_found {
	uint32_t status, pad;
	uint8_t gid[16];
};

/* From the fabric to an attached program. The program sends only kicks. */
enum plug_news { PLUG_KICK = 1, PLUG_NEWS };

struct plug_port_news {
	uint32_t say, pad;
	struct plug_port port;
};

/* Header of a message that a program writes to its file. */
enum plug_say { PLUG_MAD = 1, PLUG_REGISTER, PLUG_UNREGISTER };

struct plug_register {
	uint32_t say;
	uint32_t agent; /* of UNREGISTER */
	/* own_rmpp: the program does RMPP by itself */
	uint8_t class, version, rmpp, own_rmpp;
	uint32_t oui;
	uint64_t methods[2];
};

/* The answer to PLUG_REGISTER: the agent's number, or -errno. */
struct plug_registered {
	int32_t agent;
};

int plug_ca(const char *fabric, const char *hca, struct plug_ca *out);
/* Calls fn for each fabric that runs in this network namespace, with its name for
 * URNIC_FABRIC. */
void plug_each_running(void (*fn)(void *ctx, const char *fabric), void *ctx);
/* Writes all these names with commas, or "none"; cut at size. */
void plug_running(char *out, size_t size);
/* Returns a text for the error rc (negative) of a call about an adapter. */
const char *plug_why(int rc);
int plug_port(const char *fabric, const char *hca, uint32_t port, struct plug_port *out);

/* Opens the adapter's port for MADs. Returns a descriptor that carries messages of
 * struct ib_user_mad and MAD. */
int plug_open(const char *fabric, const char *hca, uint32_t port);

/* Opens a descriptor that stands for an issm file: the port is a subnet manager's while
 * any process has the file at *path open. Descriptor and path last as long as the
 * process. */
int plug_issm(const char *fabric, const char *hca, uint32_t port, char *path,
	      size_t size);

/* Registers an agent on a descriptor from plug_open(). Returns the agent's number. */
int plug_register(int fd, const struct plug_register *reg);
int plug_unregister(int fd, uint32_t agent);
int plug_send(int fd, const void *msg, size_t len);

/* Receives the next message without waiting. Returns its length; -EWOULDBLOCK: none;
 * -ENOSPC: it is longer than size. In that case *need is its length, msg has as much as
 * fits, and the message stays. */
long plug_recv(int fd, void *msg, size_t size, size_t *need);

/* Opens a descriptor for requests to the fabric itself. Each request is a text;
 * plug_tell() waits for the answer, a text that the caller frees. -EOPNOTSUPP: the
 * fabric takes no requests. */
int plug_control(const char *fabric);
int plug_tell(int fd, const char *ask, char **answer, size_t *len);

/* Opens a capture of the links of a node ("": all nodes), or of the link at its port (0:
 * all). plug_recv() then gives ERF records of type 21, whole ones in each message. */
int plug_capture(const char *fabric, const char *node, uint32_t port);

/* Attaches a program to the adapter. Returns a descriptor for kicks both ways and for
 * news about the port; *memory is the sealed memory that both share
 * (link/adapter_ring.h). -EADDRINUSE: another program has the slot. */
int plug_attach(const char *fabric, const char *hca, uint32_t port, uint32_t slot,
		int *memory);
int plug_kick(int fd); /* does not wait */

/* Finds the GID of the port with this IP address (IPv4 mapped), as IP over InfiniBand
 * would, or an IPv6 address that is a port's GID. -EHOSTUNREACH: no port has it. */
int plug_find(const char *fabric, const char *hca, uint32_t port, const uint8_t ip[16],
	      uint8_t gid[16]);

/* Opens a descriptor for a service of connection management at that port: while it is
 * open, requests for the service go to the program that is attached there with the slot.
 * -EADDRINUSE: another slot has the service. */
int plug_service(const char *fabric, const char *hca, uint32_t port, uint32_t slot,
		 uint64_t service);

/* Is `fabric` a valid name? Returns 0 or -EINVAL. */
int plug_check_name(const char *fabric);

#endif

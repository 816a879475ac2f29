/* SPDX-License-Identifier: BSD-2-Clause */
/* plug.h - the calls by which a program uses a fabric's adapters, and what they tell.
 * docs/dev/fabric.md describes fabrics, message.h has the messages.
 *
 * A fabric is named NAME or UID:NAME; an adapter is named as topo_find_ca() takes it.
 * Unless a call says otherwise, it returns 0, or -errno: -ENOENT: no such fabric runs;
 * -EACCES: another user has the fabric's name; -ENODEV: the fabric has no such adapter or
 * port; -EIO: the fabric ended or sent an answer that makes no sense; -ETIMEDOUT: it does
 * not answer; -EHOSTDOWN: its process is stopped.
 */
#ifndef FABRIC_PORT_PLUG_H
#define FABRIC_PORT_PLUG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PLUG_VERSION = 5,
	PLUG_HCA = 72,
	PLUG_CA_NAME = 20,
	PLUG_PKEYS = 128,
	PLUG_GUIDS = 32,
	PLUG_NAME = 40,
	PLUG_HDR = 64,	      /* sizeof(struct ib_user_mad) */
	PLUG_AT_ONCE = 65536, /* longer MADs and texts lie in memory (sys/msg.h) */
};

struct plug_ca {
	uint64_t guid, sys_guid;
	uint32_t ports;
	uint32_t vendor, device;
	char name[PLUG_CA_NAME]; /* the verbs device's name */
	char desc[65];
};

struct plug_port {
	uint32_t state, phys_state, rate; /* rate: Gb/s */
	uint32_t lid, lmc, sm_lid, sm_sl, cap_mask;
	uint64_t prefix, guid;
	uint32_t pkeys;
	uint16_t pkey[PLUG_PKEYS];
	/* Coded as in PortInfo: */
	uint32_t mtu, mtu_cap, width, speed, ext_speed, vls, subnet_timeout;
	uint32_t reregisters;	    /* how often a subnet manager set ClientReregister */
	uint64_t guids[PLUG_GUIDS]; /* the port's first GUIDs; 0: no GUID in this place */
	uint32_t address, pad;	    /* IPv4 address, host byte order; 0: none */
};

/* What a program asks for at a file (plug_open()). */
enum plug_say { PLUG_REGISTER = 1, PLUG_UNREGISTER };

struct plug_register {
	uint32_t say;
	uint32_t agent; /* UNREGISTER */
	uint8_t class, version, rmpp,
		own_rmpp; /* own_rmpp: the program does RMPP itself */
	uint32_t oui;
	uint64_t methods[2];
};

int plug_ca(const char *fabric, const char *hca, struct plug_ca *out);
/* Calls fn with the name of each fabric that runs in this network namespace, in the form
 * that URNIC_FABRIC takes. */
void plug_each_running(void (*fn)(void *ctx, const char *fabric), void *ctx);
/* Writes the names of all running fabrics, separated by commas, or "none"; cut off at
 * size. */
void plug_running(char *out, size_t size);
/* A text for the user that explains rc, a negative result of the calls in this header. */
const char *plug_why(int rc);
int plug_port(const char *fabric, const char *hca, uint32_t port, struct plug_port *out);

/* Opens a port for MADs, as /dev/infiniband/umad is opened.  Returns a descriptor, called
 * a file here; each message on a file is a struct ib_user_mad and a MAD. */
int plug_open(const char *fabric, const char *hca, uint32_t port);

/* Makes a path that serves as an issm file: while a process has the path open, the port
 * has IsSM set.  Returns a descriptor.  Both last until the process ends. */
int plug_issm(const char *fabric, const char *hca, uint32_t port, char *path,
	      size_t size);

/* Registers an agent at a file; returns the agent's number. */
int plug_register(int fd, const struct plug_register *reg);
int plug_unregister(int fd, uint32_t agent);
int plug_send(int fd, const void *msg, size_t len);

/* Takes the next message without waiting; returns its length.  -EWOULDBLOCK: there is no
 * message.  -ENOSPC: the message is longer than size; *need is its length, msg may hold
 * its beginning, and the message stays for the next call. */
long plug_recv(int fd, void *msg, size_t size, size_t *need);

/* Returns a descriptor for requests to the fabric itself.  -EOPNOTSUPP: the fabric takes
 * no such requests. */
int plug_control(const char *fabric);
/* Sends the text `ask` and waits for the answer: *len bytes, which the caller frees. */
int plug_tell(int fd, const char *ask, char **answer, size_t *len);

/* Returns a descriptor from which plug_recv() takes the packets that cross the link at
 * `port` of `node` (port 0: all links of the node; node "": all links of the fabric).
 * Each message holds whole ERF records of type 21. */
int plug_capture(const char *fabric, const char *node, uint32_t port);

/* Attaches the program to the port under its slot, to exchange packets.  Returns a
 * descriptor on which fabric and program kick each other and the fabric sends news of the
 * port.  *memory: the sealed memory that both share (net/adapter_ring.h).
 * -EADDRINUSE: another program has the slot at this adapter. */
int plug_attach(const char *fabric, const char *hca, uint32_t port, uint32_t slot,
		int *memory);
int plug_kick(int fd); /* wakes the fabric; does not wait */
/* Takes a message of the fabric without waiting.  Returns 1: news, in *out; 0: a kick;
 * -EWOULDBLOCK: there is none; -EIO: the fabric has ended. */
int plug_news(int fd, struct plug_port *out);

/* Finds the GID of the port that has this IP address (IPv4 mapped), as IP over InfiniBand
 * would learn it.  An IPv6 address that is itself a port's GID is its own result.
 * -EHOSTUNREACH: no port has the address. */
int plug_find(const char *fabric, const char *hca, uint32_t port, const uint8_t ip[16],
	      uint8_t gid[16]);

/* Claims a service ID of connection management at the port.  While the returned
 * descriptor is open, REQs for the service go to the program that is attached there under
 * the slot. -EADDRINUSE: another slot has claimed the service. */
int plug_service(const char *fabric, const char *hca, uint32_t port, uint32_t slot,
		 uint64_t service);

/* Checks a fabric's name.  Returns 0 or -EINVAL. */
int plug_check_name(const char *fabric);

#endif

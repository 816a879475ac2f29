/* SPDX-License-Identifier: BSD-2-Clause */
/* topo.h - the topology file: as ibnetdiscover writes and ibsim reads it.
 *
 *	switchguid=0x200000
 *	Switch 8 "leaf"		# "the leaf" enhanced port 0 lid 1 lmc 0
 *	[1] "H-a"[1]		# "node a" lid 2 4xQDR
 *
 *	Ca 1 "H-a"		# "node a"
 *	[1](100001) "leaf"[1]	# lid 2 lmc 0 "the leaf" lid 1 4xQDR
 *
 * A link is written at one of its ends, or at both, which then must agree.  Missing GUIDs
 * are numbered as ibsim numbers them.  Further lines, as in ibsim:
 *
 *	include "leaf.net"	# read here and now
 *	module = "m"		# nodes are called m#NAME from here on, also by ports
 *	Switch 8 "leaf"
 *	@[1] "up"		# port 1 is called m@up, by whatever is linked to it:
 *	module = ""
 *	Switch 8 "spine"
 *	[1] "m@up"
 */
#ifndef FABRIC_TOPO_H
#define FABRIC_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TOPO_ID = 64,
	TOPO_DESC = 64,
	TOPO_ERR = 512,
	TOPO_NODES_MAX = 65536,
	TOPO_PORTS_MAX = 254,
};

enum topo_type { TOPO_CA = 1, TOPO_SWITCH = 2, TOPO_ROUTER = 3 }; /* NodeInfo's */

struct topo_port {
	uint32_t peer;	   /* index of a node */
	uint8_t peer_port; /* 0: no link */
	/* enabled ones, coded as in PortInfo; 0: the default */
	uint8_t width, speed, ext;
	uint16_t lid; /* 0: none yet */
	uint8_t lmc;
	uint32_t address; /* IPv4, in host order; 0: not said */
	uint64_t guid;	  /* 0: the node's plus the port's number */
};

struct topo_node {
	enum topo_type type;
	uint8_t ports;
	bool enhanced0;
	char id[TOPO_ID], desc[TOPO_DESC + 1];
	uint64_t guid, sys_guid;
	uint32_t vendor, device; /* 0: not said */
	struct topo_port *port;	 /* [ports + 1] */
	uint32_t line, file;	 /* file: topo_parse()'s own */
};

struct topo {
	struct topo_node *node; /* [nodes] */
	uint32_t nodes;
};

/* Reads a topology from len bytes of text.  Returns 0, -ENOMEM, or -EINVAL with a message
 * "name:line:column: expected ..." in err. */
int topo_parse(struct topo *out, const char *name, const char *text, size_t len,
	       char err[TOPO_ERR]);
/* Reads a whole file that a line `include "name"` names; the caller frees *text.  Returns
 * 0 or -errno. */
typedef int topo_open(const char *name, char **text, size_t *len);
/* As topo_parse(), but takes include lines, which topo_parse() refuses. */
int topo_parse_files(struct topo *out, const char *name, const char *text, size_t len,
		     topo_open *open, char err[TOPO_ERR]);
void topo_free(struct topo *t);

/* Reads urnic's own settings of a topology.  They have a file of their own, so that the
 * topology itself still runs in ibsim:
 *
 *	[spine 3]		# this port and the other end of its cable
 *	rate = 4xHDR
 *	[spine]			# all ports of the node
 *	rate = 4xHDR
 *	[a]			# an adapter: its first port
 *	address = 127.1.0.1
 *
 * A name is as for topo_find_node(), in quotes if it has blanks.  Of two lines about one
 * thing the later one holds.  Returns as topo_parse(); on an error the caller frees t. */
int topo_set(struct topo *t, const char *name, const char *text, size_t len,
	     char err[TOPO_ERR]);

/* Gives an IP address of 127.NET.0.0/16 to the first port of each adapter that has none.
 * NET depends on the fabric's name: 1 for "default" and for `urnic fabric exec`. */
void topo_give_addresses(struct topo *t, const char *fabric);

/* Finds an adapter by its ID with or without "H-", its description, its GUID as 0x..., or
 * as #N: the Nth adapter, from 0, modulo their number.  Returns 0, -ENOENT, or -ENOTUNIQ
 * if several nodes have that description. */
int topo_find_ca(const struct topo *t, const char *name, uint32_t *node);
/* Finds a node of any type; "S-" and "R-" may be left out, too. */
int topo_find_node(const struct topo *t, const char *name, uint32_t *node);

#endif

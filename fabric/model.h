/* SPDX-License-Identifier: BSD-2-Clause */
/* model.h - what the files of the model share. */
#ifndef FABRIC_MODEL_H
#define FABRIC_MODEL_H

#include "fabric/pkt.h"
#include "fabric/topo.h"
#include "fabric/vlarb.h"
#include "sys/heap.h"
#include "sys/list.h"
#include "wire/attr.h"
#include "wire/mad.h"

enum {
	LFT_CAP = 0xc000,
	LFT_BLOCK = 64,
	LFT_DROP = 0xff,
	MFT_CAP = 1024,
	MFT_BLOCK = 32,
	PKEYS_NODE = 128,
	PKEYS_SWITCH_PORT = 32,
	PKEY_BLOCK = 32,
	GUIDS = 32,
	GUID_BLOCK = 8,
	VL_ARB_CAP = VLARB_ENTRIES,
};

enum port_state { PORT_NOP, PORT_DOWN, PORT_INIT, PORT_ARMED, PORT_ACTIVE };
enum phys_state {
	PHYS_NOP,
	PHYS_SLEEP,
	PHYS_POLLING,
	PHYS_DISABLED,
	PHYS_TRAINING,
	PHYS_LINK_UP
};

/* Bits of CapabilityMask. */
enum {
	CAP_SM = 1u << 1,
	CAP_NOTICE = 1u << 2,
	CAP_TRAP = 1u << 3,
	CAP_SL_MAP = 1u << 6,
	CAP_SYS_GUID = 1u << 11,
	CAP_SWITCH_PKEY_TRAP = 1u << 13,
	CAP_EXT_SPEEDS = 1u << 14,
	CAP_MASK2 = 1u << 15,
	CAP_CM = 1u << 16,
	CAP_MASK_NOTICE = 1u << 22,
	CAP_REREGISTER = 1u << 25,
	CAP_OTHER_NOTICE = 1u << 26,
};

/* The kinds of trap.  A port has at most one of each kind unanswered. */
enum trap_kind {
	TRAP_LINK_STATE,
	TRAP_CAP_MASK,
	TRAP_MKEY,
	TRAP_PKEY,
	TRAP_SWITCH_PKEY,
	TRAP_KINDS
};

struct node_sample; /* pma_sample.c */

/* The causes of errors and discards, in the order of the PMA's attributes. */
enum rcv_detail {
	RCV_LOCAL_PHYSICAL,
	RCV_MALFORMED,
	RCV_OVERRUN,
	RCV_DLID_MAPPING,
	RCV_VL_MAPPING,
	RCV_LOOPING,
	RCV_DETAILS
};
enum xmit_detail { XMIT_INACTIVE, XMIT_MTU, XMIT_LIFETIME, XMIT_HOQ_LIFE, XMIT_DETAILS };
enum { SLS = 16, DATA_VLS = 8 };

struct port_detail {
	uint64_t rcv[RCV_DETAILS], xmit[XMIT_DETAILS];
	uint64_t xmit_sl[SLS], rcv_sl[SLS]; /* in 4-byte words */
	uint64_t xmit_wait[DATA_VLS];	    /* ticks: wait.c */
};

struct trap {
	bool out;
	uint64_t tid;
	uint8_t notice[SMP_DATA];
};

/* The buffer of a VL: packets of data and MADs of QP1, oldest first, that wait for their
 * output. */
struct vl_queue {
	struct fab_port *port;
	uint8_t vl;
	bool inner;	   /* from this adapter's programs and QP1, not from the link */
	uint32_t mads;	   /* how many of the packets are MADs of QP1 */
	uint32_t blocks;   /* of 64 bytes, with packets that are on their way here */
	struct list fl;	   /* struct flight */
	struct list stand; /* in fabric.ready, outlet.stand or port_data.for_room */
	uint64_t since;	   /* when the first packet came to its outlet; 0: not there */
};

/* A resource for which queues of several VLs compete: a link, or a port's programs. */
struct outlet {
	struct list stand[DATA_VLS]; /* vl_queues whose first packet is for it */
	uint8_t may;		     /* mask of VLs: the first of stand may try to go */
	struct list turn;	     /* in fabric.links or ups while may is not 0 */
	struct vlarb arb;
};

struct port_data {
	struct fab_port *port;
	struct vl_queue in[DATA_VLS];  /* from the link */
	struct vl_queue out[DATA_VLS]; /* of an adapter: from its programs */
	struct outlet link;	       /* to the peer */
	struct outlet up;	       /* of an adapter: to its programs */
	struct list for_room;	       /* vl_queues whose program here has no room */
	struct heap_node life_due;     /* when the oldest waiting packet expires */
	uint8_t lost[DATA_VLS];	       /* packets in a row that have expired */
	uint64_t stalled[DATA_VLS];    /* until this time the VL drops all packets */
	uint64_t waits[DATA_VLS]; /* has waited for credits since; 0: does not wait */
	uint64_t waits_any; /* a VL has waited and none has sent since; 0: none waits */
};

struct fab_port {
	struct fab_node *node;
	struct fab_port *peer; /* port at the other end of the cable; may be NULL */
	uint8_t num;
	bool plugged; /* the cable is plugged in at both ends */
	struct port_info pi;
	uint64_t guid;
	uint16_t *pkey; /* [pkeys] */
	uint16_t pkeys;
	uint64_t *guids;	     /* [GUIDS], for ports with a LID; big-endian */
	uint8_t (*sl2vl)[8];	     /* [input port], nibbles */
	uint8_t vl_arb[4][SMP_DATA]; /* low, low, high, high */
	struct port_counters_ext count;
	struct port_detail detail;
	struct trap trap[TRAP_KINDS];
	struct heap_node trap_due; /* earliest time of the next trap */
	uint32_t reregisters;
	uint8_t trap_next; /* enum trap_kind that is tried first */
	uint64_t trap_tid;
	struct heap_node lease_due; /* when the M_Key's lease ends */
	struct port_data *data;	    /* NULL: no packet of data has come by yet */
};

struct fab_node {
	struct fabric *f;
	uint32_t index;
	uint8_t ports;
	struct node_info ni;
	struct switch_info si;
	char desc[SMP_DATA];
	struct fab_port *port; /* [ports + 1]; [0] is a switch's own port */
	uint8_t *lft;	       /* [LFT_CAP] */
	uint16_t *mft;	       /* [positions][MFT_CAP]: masks of 16 ports */
	uint8_t mft_positions;
	struct node_sample *sample; /* NULL: no sampling has been asked for yet */
};

/* A packet that is about to arrive at a port, or lies in a buffer. */
struct flight {
	struct list node;
	struct fab_port *to;
	bool local; /* sent by the node itself, not by the link */
	/* Only of a packet in a buffer: */
	bool spread;	   /* a multicast packet at the head of its queue: ports is set */
	uint64_t entered;  /* when it came to this node */
	uint64_t ports[4]; /* bitmap: ports it has yet to go to; 0: to the programs */
	struct mad_pkt pkt;
};

struct fabric {
	const struct fabric_ops *ops;
	void *ctx;
	uint64_t now;
	uint32_t nodes;
	struct fab_node *node;
	struct list flying, unused; /* struct flight */
	struct heap trap_due, lease_due, life_due, sample_due;
	struct list ready;	/* vl_queues whose first packet looks for its outlet */
	struct list links, ups; /* outlets */
	uint32_t changes;	/* fabric_changes() */
	uint32_t datas;		/* how many ports have a struct port_data */
	uint32_t samples;	/* how many nodes have a struct node_sample */
};

static inline bool is_switch(const struct fab_node *n)
{
	return n->ni.type == TOPO_SWITCH;
}

/* The port whose LID, GUIDs and M_Key apply to p: of a switch, port 0. */
static inline struct fab_port *lid_port(struct fab_port *p)
{
	return is_switch(p->node) ? &p->node->port[0] : p;
}

static inline bool has_lid(const struct fab_port *p, uint16_t lid)
{
	return p->pi.lid &&
	       (lid & ~((1u << p->pi.lmc) - 1)) == (p->pi.lid & ~((1u << p->pi.lmc) - 1));
}

static inline bool is_lid_port(const struct fab_port *p)
{
	return !is_switch(p->node) || p->num == 0;
}

/* Queues a packet that arrives at `to`.  -ENOMEM: the packet is lost. */
int fly(struct fabric *f, struct fab_port *to, bool local, const struct mad_pkt *pkt);

enum { VL_SMI = 15 };

/* forward.c: turns the addresses, QPs and P_Key of pkt, as received by that port, into
 * those of an answer; the MAD stays. */
void answer_head(const struct fab_port *own, struct mad_pkt *pkt);
/* Sends by that port on that VL to the other end of the cable; dropped if the link does
 * not carry it. */
void send_out(struct fab_port *by, uint8_t vl, const struct mad_pkt *pkt);
/* Sends by LID, from a port that has one; an adapter's packet leaves by that port. */
void send_routed(struct fab_port *from, const struct mad_pkt *pkt);
void arrive(struct flight *fl);
/* Handles a MAD for QP1 from the buffer of the port whose LID it names. */
void mad_here(struct fab_port *in, struct mad_pkt *pkt);

/* Returns the words from the LRH to the ICRC: LRH, GRH if any, BTH, DETH, MAD, ICRC. */
static inline uint32_t pkt_words(const struct mad_pkt *pkt)
{
	enum {
		MAD_WORDS = (8 + 12 + 8 + MAD_SIZE + 4) / 4,
		GRH_WORDS = 10,
		LRH_WORDS = 2
	};
	uint32_t n = pkt->data ? LRH_WORDS + pkt->data->len / 4 : MAD_WORDS;

	return n + (pkt->grh ? GRH_WORDS : 0);
}

/* Rules for data packets that pass from one port to another; those that may not are
 * counted. */
bool find_out(struct fab_node *n, struct fab_port *in, const struct mad_pkt *pkt,
	      uint8_t *out, uint8_t *vl);
bool find_vl(const struct fab_port *out, uint8_t in, const struct mad_pkt *pkt,
	     uint8_t *vl);
bool leaves(struct fab_port *by, const struct mad_pkt *pkt);
void count_discard(struct fab_port *by, enum xmit_detail why);
void count_out(struct fab_port *by, uint8_t vl, const struct mad_pkt *pkt);
bool may_leave(struct fab_port *out, const struct mad_pkt *pkt);
bool take_in(struct fab_port *in, const struct mad_pkt *pkt);
bool good_pkey(struct fab_port *in, const struct mad_pkt *pkt);
void no_way(struct fab_port *in, enum rcv_detail why);

struct flight *flight_new(struct fabric *f);

/* data.c, outlet.c, buffer.c */
/* Moves up to max packets; returns how much of max is left. */
unsigned data_run(struct fabric *f, unsigned max);
/* Drops expired packets of the ports whose life_due has come. */
void data_life(struct fabric *f);
/* p's link is down: packets that wait for it look for their outlet anew. */
void data_link_down(struct fab_port *p);
/* p's HOQLife has changed, which also applies to packets that wait already. */
void data_new_life(struct fab_port *p);
void data_free(struct fab_port *p);
/* Takes a packet from a program or QP1 at this adapter.  Returns 0 or -ENOMEM; on -ENOMEM
 * the packet stays the caller's. */
int data_begin(struct fab_port *p, const struct mad_pkt *pkt);
/* A program at p has room again. */
void data_room(struct fab_port *p);

/* Lets the first queue of the VL's line try to send, unless the line is empty. */
static inline void outlet_turn(struct list *turns, struct outlet *o, unsigned vl)
{
	unsigned some = !list_empty(&o->stand[vl]);

	o->may = (uint8_t)((o->may & ~(1u << vl)) | some << vl);
	if (!o->may)
		list_del(&o->turn);
	else if (list_empty(&o->turn))
		list_add_tail(turns, &o->turn);
}

/* wait.c: time that packets wait for credits */
enum { PMA_TICK = 1000 }; /* ns; also what PortSamplesControl reports */
/* The first packet of the VL at p's link finds no credits. */
void wait_begin(struct fab_port *p, unsigned vl);
/* Ends wait_begin(): the packet has gone, or no packet of the VL is left. */
void wait_over(struct fab_port *p, unsigned vl);
/* Brings p's counters of waiting up to the present. */
void wait_count(struct fab_port *p);

/* link.c */
void link_retrain(struct fab_port *p); /* brings the link up if both ends allow it */
void link_down(struct fab_port *p);    /* takes it down; then it retrains if possible */

/* dr.c: what a node does with a directed-route SMP. */
enum dr_to { DR_DROP, DR_HERE, DR_OUT, DR_ROUTE };
struct dr_step {
	enum dr_to to;
	uint8_t port;
	uint16_t dlid;
};

/* Decides the SMP's next step, and changes its hop pointer and return path.  in: the port
 * that it came in by; 0 at an adapter: the adapter itself sends it.  lid_routed: its DLID
 * is this node's. */
struct dr_step dr_step(struct smp *smp, bool is_switch, uint8_t ports, uint8_t in,
		       bool lid_routed);

/* sma.c: turns smp, a request in pkt that came in by port `in`, into its answer in place.
 * SMA_SILENT: the M_Key is wrong, so there is no answer. */
enum sma_says { SMA_NOT_MINE, SMA_ANSWERS, SMA_SILENT };
enum sma_says sma_answer(struct fab_port *in, struct smp *smp, const struct mad_pkt *pkt);

/* pma.c: turns a request into its answer in place.  Returns false if the MAD is not for
 * the PMA. */
bool pma_answer(struct fab_port *in, uint8_t mad[MAD_SIZE]);
/* Finds the first and the last of the ports that PortSelect names.  Returns false if
 * there is no such port. */
bool pma_ports(struct fab_port *in, uint8_t select, unsigned *from, unsigned *to);
/* pma_detail.c.  Returns an enum mad_status. */
uint16_t pma_detail(struct fab_port *in, uint16_t attr, bool set, uint8_t *data);

/* pma_sample.c.  Both return an enum mad_status; pma_sample_run() does what is due in
 * f->sample_due. */
uint16_t pma_samples_control(struct fab_port *in, bool set, uint8_t *data);
uint16_t pma_samples_result(struct fab_port *in, bool set, uint8_t *data);
void pma_sample_run(struct fabric *f);
void pma_sample_free(struct fab_node *n);

/* sma_port.c, sma_table.c.  They return an enum mad_status. */
uint16_t port_info_get(struct fab_port *in, uint32_t mod, uint8_t *data);
uint16_t port_info_set(struct fab_port *in, uint32_t mod, uint8_t *data);
uint16_t table_get(struct fab_port *in, uint16_t attr, uint32_t mod, uint8_t *data);
uint16_t table_set(struct fab_port *in, uint16_t attr, uint32_t mod, uint8_t *data);

/* trap.c */
void trap_link(struct fab_node *n);
void trap_cap_mask(struct fab_port *p);
void trap_mkey(struct fab_port *p, const struct mad_pkt *pkt);
void trap_pkey(struct fab_port *p, const struct mad_pkt *pkt);
/* pkt was dropped at an external port of a switch that enforces partitions. */
void trap_switch_pkey(struct fab_port *at, const struct mad_pkt *pkt);
/* Stops the trap that a TrapRepress names.  Returns false if it is none of p's. */
bool trap_repressed(struct fab_port *p, const struct smp *smp);
void trap_run(struct fab_port *p);  /* p's trap_due has come: sends the next trap */
void trap_drop(struct fab_port *p); /* forgets p's traps: there is no manager to tell */

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* model.h - between the files of the model. */
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

/* CapabilityMask */
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

/* Traps that a port may have out, each at most once. */
enum trap_kind {
	TRAP_LINK_STATE,
	TRAP_CAP_MASK,
	TRAP_MKEY,
	TRAP_PKEY,
	TRAP_SWITCH_PKEY,
	TRAP_KINDS
};

struct node_sample; /* pma_sample.c */

/* What the PMA tells apart, in its order. */
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
	uint64_t xmit_sl[SLS], rcv_sl[SLS]; /* words */
	uint64_t xmit_wait[DATA_VLS];	    /* ticks: wait.c */
};

struct trap {
	bool out;
	uint64_t tid;
	uint8_t notice[SMP_DATA];
};

/* The buffer of a VL: packets of data and of QP1, oldest first, until their output takes
 * them. */
struct vl_queue {
	struct fab_port *port;
	uint8_t vl;
	bool inner;	   /* a program's packets: its own pool bounds them; and MADs */
	uint32_t mads;	   /* of QP1 that are among them */
	uint32_t blocks;   /* of 64 bytes, those on their way here included */
	struct list fl;	   /* struct flight */
	struct list stand; /* fabric.ready, stand of an outlet, or for_room */
	uint64_t since;	   /* its first packet stands at its outlet; 0: it does not */
};

/* Where packets of several VLs want the same. */
struct outlet {
	struct list stand[DATA_VLS]; /* vl_queues, each with a packet for it */
	uint8_t may;		     /* mask of VLs: the first of stand may go */
	struct list turn;	     /* fabric.links or ups, while may is not 0 */
	struct vlarb arb;
};

struct port_data {
	struct fab_port *port;
	struct vl_queue in[DATA_VLS];  /* from the link */
	struct vl_queue out[DATA_VLS]; /* an adapter's: from its programs */
	struct outlet link;	       /* to the peer */
	struct outlet up;	       /* an adapter's: to its programs */
	struct list for_room;	       /* vl_queues whose program here has no room */
	struct heap_node life_due;     /* when the first that waits is too old */
	uint8_t lost[DATA_VLS];	       /* packets in a row that were too old */
	uint64_t stalled[DATA_VLS];    /* until then the VL takes none */
	uint64_t waits[DATA_VLS];      /* for credits, since then; 0: it does not */
	uint64_t waits_any; /* a VL waits, and none has sent since then; or 0 */
};

struct fab_port {
	struct fab_node *node;
	struct fab_port *peer; /* at the other end of the cable; or NULL */
	uint8_t num;
	bool plugged; /* the cable is in, at both ends */
	struct port_info pi;
	uint64_t guid;
	uint16_t *pkey; /* [pkeys] */
	uint16_t pkeys;
	uint64_t *guids;	     /* [GUIDS], of ports with a LID; big-endian
				      * order does not matter here */
	uint8_t (*sl2vl)[8];	     /* [input port], nibbles */
	uint8_t vl_arb[4][SMP_DATA]; /* low, low, high, high */
	struct port_counters_ext count;
	struct port_detail detail;
	struct trap trap[TRAP_KINDS];
	struct heap_node trap_due; /* when the next trap may go */
	uint32_t reregisters;
	uint8_t trap_next; /* enum trap_kind to begin with */
	uint64_t trap_tid;
	struct heap_node lease_due; /* when the M_Key's lease ends */
	struct port_data *data;	    /* NULL: none has come by yet */
};

struct fab_node {
	struct fabric *f;
	uint32_t index;
	uint8_t ports;
	struct node_info ni;
	struct switch_info si;
	char desc[SMP_DATA];
	struct fab_port *port; /* [ports + 1]; [0] is a switch's own */
	uint8_t *lft;	       /* [LFT_CAP] */
	uint16_t *mft;	       /* [positions][MFT_CAP]: masks of 16 ports */
	uint8_t mft_positions;
	struct node_sample *sample; /* NULL: nobody has asked for one yet */
};

/* A packet that is about to arrive. */
struct flight {
	struct list node;
	struct fab_port *to;
	bool local; /* it comes from above, not from the link */
	/* In a buffer: */
	bool spread;	   /* ports is set: a group's packet, at the head of its queue */
	uint64_t entered;  /* this node */
	uint64_t ports[4]; /* that it has yet to go to; 0: the adapter itself */
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
	uint32_t changes;	/* of ports */
	uint32_t datas;		/* ports that have a struct port_data */
	uint32_t samples;	/* nodes that have a struct node_sample */
};

static inline bool is_switch(const struct fab_node *n)
{
	return n->ni.type == TOPO_SWITCH;
}

/* The port that has the LID, GUIDs and M_Key that hold for this one. */
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

/* Queue.  -ENOMEM: lost. */
int fly(struct fabric *f, struct fab_port *to, bool local, const struct mad_pkt *pkt);

enum { VL_SMI = 15 };

/* forward.c: pkt, as it came to that port, gets the addresses, QPs and P_Key of its
 * answer; the MAD stays. */
void answer_head(const struct fab_port *own, struct mad_pkt *pkt);
/* Out by the port on that VL, to whatever is at the other end; lost if the
 * link does not carry it. */
void send_out(struct fab_port *by, uint8_t vl, const struct mad_pkt *pkt);
/* By LID, from a port with one: an adapter's goes out by it. */
void send_routed(struct fab_port *from, const struct mad_pkt *pkt);
void arrive(struct flight *fl);
/* A MAD of QP1, out of the buffer of a port whose LID it names. */
void mad_here(struct fab_port *in, struct mad_pkt *pkt);

/* Words from the LRH to the ICRC: LRH, BTH, DETH, MAD, ICRC; and a GRH. */
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

/* A packet of data may pass from one port to the other: what may not is counted. */
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
unsigned data_run(struct fabric *f, unsigned max); /* how many more it might have moved */
void data_life(struct fabric *f);		   /* life_due is there */
void data_link_down(struct fab_port *p); /* what waits for it goes on, or is lost */
void data_new_life(struct fab_port *p);	 /* HOQLife holds for what waits already, too */
void data_free(struct fab_port *p);
/* From a program at this adapter, or a QP1.  0 or -ENOMEM: then it is still the caller's.
 */
int data_begin(struct fab_port *p, const struct mad_pkt *pkt);
void data_room(struct fab_port *p); /* its programs have taken something */

/* The line of that VL may move on, or is empty. */
static inline void outlet_turn(struct list *turns, struct outlet *o, unsigned vl)
{
	unsigned some = !list_empty(&o->stand[vl]);

	o->may = (uint8_t)((o->may & ~(1u << vl)) | some << vl);
	if (!o->may)
		list_del(&o->turn);
	else if (list_empty(&o->turn))
		list_add_tail(turns, &o->turn);
}

/* wait.c: the first packet of the VL at p's link finds no credits; it has gone, or
 * nothing of the VL is there any more; p's counters are as of now. */
enum { PMA_TICK = 1000 }; /* nanoseconds: what PortSamplesControl says of it */
void wait_begin(struct fab_port *p, unsigned vl);
void wait_over(struct fab_port *p, unsigned vl);
void wait_count(struct fab_port *p);

/* link.c */
void link_retrain(struct fab_port *p); /* looks whether it can be up now */
void link_down(struct fab_port *p);    /* then it trains again, if it can */

/* dr.c: what a node does with a directed route SMP. */
enum dr_to { DR_DROP, DR_HERE, DR_OUT, DR_ROUTE };
struct dr_step {
	enum dr_to to;
	uint8_t port;
	uint16_t dlid;
};

/* in: the port that it came in by; 0 of an adapter's: from itself.  lid_routed:
 * its LRH named this node.  Changes the hop pointer and the return path. */
struct dr_step dr_step(struct smp *smp, bool is_switch, uint8_t ports, uint8_t in,
		       bool lid_routed);

/* sma.c: the answer to a request that came in by port `in`, in place; smp is in
 * pkt.  Silent: a wrong M_Key. */
enum sma_says { SMA_NOT_MINE, SMA_ANSWERS, SMA_SILENT };
enum sma_says sma_answer(struct fab_port *in, struct smp *smp, const struct mad_pkt *pkt);

/* pma.c: likewise; false: it is not the PMA's. */
bool pma_answer(struct fab_port *in, uint8_t mad[MAD_SIZE]);
/* The ports that PortSelect names: first and last. */
bool pma_ports(struct fab_port *in, uint8_t select, unsigned *from, unsigned *to);
/* pma_detail.c: enum mad_status. */
uint16_t pma_detail(struct fab_port *in, uint16_t attr, bool set, uint8_t *data);

/* pma_sample.c: likewise; and what f->sample_due has. */
uint16_t pma_samples_control(struct fab_port *in, bool set, uint8_t *data);
uint16_t pma_samples_result(struct fab_port *in, bool set, uint8_t *data);
void pma_sample_run(struct fabric *f);
void pma_sample_free(struct fab_node *n);

/* sma_port.c, sma_table.c: enum mad_status. */
uint16_t port_info_get(struct fab_port *in, uint32_t mod, uint8_t *data);
uint16_t port_info_set(struct fab_port *in, uint32_t mod, uint8_t *data);
uint16_t table_get(struct fab_port *in, uint16_t attr, uint32_t mod, uint8_t *data);
uint16_t table_set(struct fab_port *in, uint16_t attr, uint32_t mod, uint8_t *data);

/* trap.c */
void trap_link(struct fab_node *n);
void trap_cap_mask(struct fab_port *p);
void trap_mkey(struct fab_port *p, const struct mad_pkt *pkt);
void trap_pkey(struct fab_port *p, const struct mad_pkt *pkt);
/* At an external port of a switch that enforces partitions. */
void trap_switch_pkey(struct fab_port *at, const struct mad_pkt *pkt);
bool trap_repressed(struct fab_port *p, const struct smp *smp); /* it was one of p's */
void trap_run(struct fab_port *p);				/* trap_due is there */
void trap_drop(struct fab_port *p); /* nobody is there to be told */

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* model.h - declarations shared by the files of the model. */
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

/* Traps that a port may have outstanding, each at most once. */
enum trap_kind {
	TRAP_LINK_STATE,
	TRAP_CAP_MASK,
	TRAP_MKEY,
	TRAP_PKEY,
	TRAP_SWITCH_PKEY,
	TRAP_KINDS
};

struct node_sample; /* pma_sample.c */

/* Causes of receive errors that the PMA distinguishes, in its order. */
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

/* The buffer of a VL: data packets and those of QP1, oldest first, until their outlet
 * takes them. */
struct vl_queue {
	struct fab_port *port;
	uint8_t vl;
	/* packets from a program, bounded by its own pool, and MADs */
	bool inner;
	uint32_t mads;	   /* how many of them are MADs of QP1 */
	uint32_t blocks;   /* of 64 bytes, including packets on their way here */
	struct list fl;	   /* struct flight */
	struct list stand; /* in fabric.ready, `stand` of an outlet, or for_room */
	/* ns; its first packet has waited at its outlet since then; 0: it has not
	 * reached it */
	uint64_t since;
};

/* An output for which packets of several VLs compete. */
struct outlet {
	/* vl_queues whose first packet waits for this outlet */
	struct list stand[DATA_VLS];
	/* mask of VLs: the first queue in `stand` may send */
	uint8_t may;
	/* in fabric.links or fabric.ups, while `may` is not 0 */
	struct list turn;
	struct vlarb arb;
};

struct port_data {
	struct fab_port *port;
	struct vl_queue in[DATA_VLS];  /* received from the link */
	struct vl_queue out[DATA_VLS]; /* adapter only: sent by its programs */
	struct outlet link;	       /* to the other end of the cable */
	struct outlet up;	       /* adapter only: to its programs */
	/* vl_queues whose first packet is for a program without room */
	struct list for_room;
	/* when the first waiting packet becomes too old */
	struct heap_node life_due;
	uint8_t lost[DATA_VLS];	    /* packets in a row that became too old */
	uint64_t stalled[DATA_VLS]; /* ns; until then the VL takes no packets */
	/* ns: since then the VL has waited for credits; 0: it does not wait */
	uint64_t waits[DATA_VLS];
	/* ns: since then a VL has waited and none has sent; 0: no VL waits */
	uint64_t waits_any;
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
	struct port_data *data;	    /* NULL: no data packet has come yet */
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
	struct node_sample *sample; /* NULL: nobody has asked for one yet */
};

/* A packet that is about to arrive at a port. */
struct flight {
	struct list node;
	struct fab_port *to;
	bool local; /* it comes from the adapter's programs, not from the link */
	/* In a buffer: */
	/* `ports` is set: a group's packet at the head of its queue */
	bool spread;
	uint64_t entered; /* ns; when it entered this node */
	/* ports that it still has to leave by; 0: the adapter itself */
	uint64_t ports[4];
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
	struct list links, ups; /* outlets with packets that may go */
	uint32_t changes;	/* of ports */
	uint32_t datas;		/* ports that have a struct port_data */
	uint32_t samples;	/* nodes that have a struct node_sample */
};

static inline bool is_switch(const struct fab_node *n)
{
	return n->ni.type == TOPO_SWITCH;
}

/* Returns the port whose LID, GUIDs and M_Key apply to p. */
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

/* Queues a packet to arrive at port `to`. Returns 0, or -ENOMEM if it is lost. */
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
/* returns how many more it might have moved */
unsigned data_run(struct fabric *f, unsigned max);
void data_life(struct fabric *f); /* life_due has come */
/* packets that wait for the link go elsewhere, or are lost */
void data_link_down(struct fab_port *p);
/* HOQLife has changed, for packets that already wait, too */
void data_new_life(struct fab_port *p);
void data_free(struct fab_port *p);
/* Takes a packet from a program at this adapter, or from QP1. Returns 0, or -ENOMEM;
 * then it is still the caller's. */
int data_begin(struct fab_port *p, const struct mad_pkt *pkt);
void data_room(struct fab_port *p); /* its programs have made room */

/* Marks that the first queue of that VL may send, or that there is none. */
static inline void outlet_turn(struct list *turns, struct outlet *o, unsigned vl)
{
	unsigned some = !list_empty(&o->stand[vl]);

	o->may = (uint8_t)((o->may & ~(1u << vl)) | some << vl);
	if (!o->may)
		list_del(&o->turn);
	else if (list_empty(&o->turn))
		list_add_tail(turns, &o->turn);
}

/* wait.c counts the time that VLs wait for credits. wait_begin(): the first packet of the
 * VL at p's link finds no credits. wait_over(): it has gone, or the VL has no packet any
 * more. wait_count(): brings p's counters up to now. */
enum { PMA_TICK = 1000 }; /* ns, as PortSamplesControl reports it */
void wait_begin(struct fab_port *p, unsigned vl);
void wait_over(struct fab_port *p, unsigned vl);
void wait_count(struct fab_port *p);

/* link.c */
void link_retrain(struct fab_port *p); /* brings the link up if both ends can */
/* takes the link down; it trains again if it can */
void link_down(struct fab_port *p);

/* dr.c: where a node sends a directed route SMP. */
enum dr_to { DR_DROP, DR_HERE, DR_OUT, DR_ROUTE };
struct dr_step {
	enum dr_to to;
	uint8_t port;
	uint16_t dlid;
};

/* Handles a directed route SMP. in: the port that it came in by; 0 at an adapter: from
 * itself. lid_routed: its LRH named this node. Updates the hop pointer and the return
 * path. */
struct dr_step dr_step(struct smp *smp, bool is_switch, uint8_t ports, uint8_t in,
		       bool lid_routed);

/* sma.c: answers, in place, a request that came by port `in`; smp is in pkt. Silent:
 * wrong M_Key. */
enum sma_says { SMA_NOT_MINE, SMA_ANSWERS, SMA_SILENT };
enum sma_says sma_answer(struct fab_port *in, struct smp *smp, const struct mad_pkt *pkt);

/* pma.c: the same for the PMA; false: the MAD is not for it. */
bool pma_answer(struct fab_port *in, uint8_t mad[MAD_SIZE]);
/* Finds the first and last of the ports that PortSelect names. */
bool pma_ports(struct fab_port *in, uint8_t select, unsigned *from, unsigned *to);
/* pma_detail.c: returns enum mad_status. */
uint16_t pma_detail(struct fab_port *in, uint16_t attr, bool set, uint8_t *data);

/* pma_sample.c: return enum mad_status. pma_sample_run() takes what is due in
 * f->sample_due. */
uint16_t pma_samples_control(struct fab_port *in, bool set, uint8_t *data);
uint16_t pma_samples_result(struct fab_port *in, bool set, uint8_t *data);
void pma_sample_run(struct fabric *f);
void pma_sample_free(struct fab_node *n);

/* sma_port.c, sma_table.c: return enum mad_status. */
uint16_t port_info_get(struct fab_port *in, uint32_t mod, uint8_t *data);
uint16_t port_info_set(struct fab_port *in, uint32_t mod, uint8_t *data);
uint16_t table_get(struct fab_port *in, uint16_t attr, uint32_t mod, uint8_t *data);
uint16_t table_set(struct fab_port *in, uint16_t attr, uint32_t mod, uint8_t *data);

/* trap.c */
void trap_link(struct fab_node *n);
void trap_cap_mask(struct fab_port *p);
void trap_mkey(struct fab_port *p, const struct mad_pkt *pkt);
void trap_pkey(struct fab_port *p, const struct mad_pkt *pkt);
/* For an external port of a switch that enforces partitions. */
void trap_switch_pkey(struct fab_port *at, const struct mad_pkt *pkt);
/* returns true if the trap was one of p's */
bool trap_repressed(struct fab_port *p, const struct smp *smp);
void trap_run(struct fab_port *p);  /* trap_due has come */
void trap_drop(struct fab_port *p); /* there is no subnet manager to be told */

#endif

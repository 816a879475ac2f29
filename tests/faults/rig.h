/* SPDX-License-Identifier: BSD-2-Clause */
/* rig.h - what the fault programs have in common: a device with one registered buffer
 * and QPs, and failed(), which ends the program. */
#ifndef FAULTS_RIG_H
#define FAULTS_RIG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options {
	const char *dev;	 /* NULL: the first device */
	const char *port, *host; /* port and host of the control connection */
	const char *mode;
	bool shared; /* memory of regions is a memfd's */
	int gid;
	bool events;	 /* sleep on the completion channel */
	bool privileged; /* the program may run as root */
	int timeout, retries;
	uint32_t qpn; /* the QP must have this number; 0: any */
	double seconds;
	unsigned pause; /* ms */
};
extern struct options opt;

/* The commands; each returns 0 only if everything was as it must be. */
int worker(void);
int target(void);
int forks(void);
int storm(void);
int closes(void);
int memory(void);
int heap(void);
int watch(void);
int renamed(void);
int datagrams(void);
int anew(void);
int calls(void);
int extended(void);

#define CHECK(x) ((x) ? (void)0 : failed(#x, __FILE__, __LINE__))
_Noreturn void failed(const char *what, const char *file, int line);

/* Prints a line at once. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
double now_s(void);
void sleep_ms(unsigned ms);

struct rig {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buf;
	union ibv_gid gid;
};

enum { RIG_BUF = 384 << 10, RIG_DEPTH = 16 };
enum {
	RIG_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC
};

/* Returns memory for a region. */
uint8_t *rig_memory(size_t bytes);
void rig_memory_free(uint8_t *at, size_t bytes);
void rig_open(struct rig *r);
void rig_close(struct rig *r);

struct ibv_qp *rig_qp(struct rig *r);
/* Returns a UD QP in RTS. */
struct ibv_qp *rig_ud(struct rig *r, uint32_t recvs, uint32_t qkey);
/* Takes a QP of rig_qp() to RTR; returns as ibv_modify_qp() does. */
int rig_rtr(struct ibv_qp *qp, uint32_t dest_qpn, uint32_t psn,
	    const union ibv_gid *dest);
/* Takes it to RTS, too. */
void rig_join(struct rig *r, struct ibv_qp *qp, uint32_t dest_qpn, uint32_t psn,
	      const union ibv_gid *dest);

/* Posts one signaled request of len bytes at buf + at. */
void rig_post(struct rig *r, struct ibv_qp *qp, enum ibv_wr_opcode op, size_t at,
	      size_t len, uint64_t remote, uint32_t rkey, uint64_t add);

/* Waits for the next completion; fails after 40 s. */
struct ibv_wc rig_wait(struct rig *r);

/* Two QPs of one process, connected to each other. */
struct loop {
	struct rig rig;
	struct ibv_qp *a, *b;
};

void loop_open(struct loop *l);
void loop_close(struct loop *l);
/* Does and checks a WRITE, a READ and a FETCH_ADD, with contents derived from seed. */
void loop_traffic(struct loop *l, uint64_t seed);

#endif

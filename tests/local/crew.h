/* SPDX-License-Identifier: BSD-2-Clause */
/* crew.h - processes of one host that a program forks before it opens a device,
 * and what they tell each other through shared memory. */
#ifndef LOCAL_TESTS_CREW_H
#define LOCAL_TESTS_CREW_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "rig.h"

extern struct crew_options {
	unsigned count; /* rounds, processes, QPs: see a command */
	unsigned first, step, threads;
	uint64_t seed;
} lopt;

/* The commands; each returns 0 only if everything was as it must be. */
int stopped(void);
int stopped_early(void);
int deaths(void);
int crowd(void);
int many_qps(void);
int churn(void);
int clients(void);
int mixed(void);
int unmapped(void);
int protect(void);
int deregistered(void);
int victim(void);
int hostile(void);
int forked(void);
int executed(void);
int dropped(void);
int held(void);
int midcopy(void);
int noticed(void);
int beforehand(void);
int beside(void);
int storm(void);
int loads(void);
int afterwards(void);
int model(void);
int truncated(void);
int many_regions(void);

/* Zeroed memory that children share. */
void *crew_share(size_t bytes);
/* Forks a child that does role(arg) and exits with 0; it dies with its parent. */
pid_t crew_fork(void (*role)(void *), void *arg);
void crew_reap(pid_t pid); /* waits for the child, which must exit with 0 */

/* Waits until *word >= value; 40 s at most. */
void crew_wait(const _Atomic uint32_t *word, uint32_t value);
/* Becomes this user for good; 0: stays root. */
void crew_become(unsigned user);
void crew_nap(void); /* some microseconds */

/* What a QP must know of its peer. */
struct card {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

enum { CREW_PSN = 77 }; /* first PSN of every QP */

struct card crew_card(const struct rig *r, const struct ibv_qp *qp);
void crew_join(struct rig *r, struct ibv_qp *qp, const struct card *theirs);
/* Posts one request to the memory that the peer's card names; it must succeed. */
void crew_expect(struct rig *r, struct ibv_qp *qp, const struct card *theirs,
		 enum ibv_wr_opcode op, size_t at, size_t len, size_t to);
void crew_recv(struct rig *r, struct ibv_qp *qp, size_t at, size_t len);

/* The resources that this process holds. */
struct census {
	unsigned fds, maps, rss_kib;
};

/* Numbers of QPs and keys are drawn at random, so their tables and the export table grow
 * to their full size, page by page, however few QPs and keys exist at a time. */
enum { CREW_TABLES_KIB = 768 };

struct census crew_census(void);
/* Checks that the process holds no more than before, apart from so many KiB of memory. */
void crew_compare(const char *who, struct census before, unsigned kib);

/* Is the memory there a file's, which another process could map? */
bool is_a_file(const void *at);

#endif

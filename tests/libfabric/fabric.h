/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric.h - what the tests of libfabric's verbs provider have in common. */
#ifndef TESTS_FABRIC_H
#define TESTS_FABRIC_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call of libfabric that must return rc. */
#define GIVES(rc, call)                                                                  \
	do {                                                                             \
		long rc_ = (long)(call);                                                 \
		if (rc_ != (rc)) {                                                       \
			fprintf(stderr, "%s:%d: %s: %ld (%s)\n", __FILE__, __LINE__,     \
				#call, rc_, fi_strerror((int)-rc_));                     \
			exit(1);                                                         \
		}                                                                        \
	} while (0)
#define OK(call) GIVES(0, call)
#define MUST(cond)                                                                       \
	do {                                                                             \
		if (!(cond)) {                                                           \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);       \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

enum { WAIT_MS = 15000, ENDS_MAX = 8, BUF = 1 << 16, RECVS = 64 };

/* A domain, and the objects that its endpoints share. */
struct side {
	bool serves;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_pep *pep;
	struct fi_info
		*early; /* a connection request that came before an expected event */
	struct fid_domain *domain;
	struct fid_cq *tx, *rx;
	struct fid_ep *srx; /* NULL: each endpoint has its own */
	struct fid_mr *mr;
	struct fid_ep *ep[ENDS_MAX];
	unsigned n;
	uint8_t *buf; /* BUF bytes: the first half is sent */
};

/* How a test's side differs from the usual one; needed before endpoints are made. */
struct wants {
	bool shared_rx;
	size_t tx_size; /* size of the send queue and its CQ; 0: the provider's default */
};

void side_open(struct side *s, bool serves, const char *ip, const char *port,
	       const struct wants *w);
void side_close(struct side *s);
/* Connects or accepts one more endpoint, while the other side does the opposite.  RECVS
 * receives are posted before any message can come. */
void side_connect(struct side *s, const struct wants *w);
struct fi_info *side_request(struct side *s, void *data, size_t *len);
void side_domain(struct side *s, struct fi_info *info, const struct wants *w);
struct fid_ep *side_endpoint(struct side *s, struct fi_info *info);
/* Waits for the next event, which must be of this type and for this endpoint. */
void side_event(struct side *s, uint32_t event, fid_t fid);
/* Waits for the next event, which must be this error. */
void side_refused(struct side *s, int err, void *data, size_t *len);

void cq_wait(struct fid_cq *cq, struct fi_cq_data_entry *e);
void cq_canceled(struct fid_cq *cq);
void cq_expect(struct fid_cq *cq, uint64_t flags);
void post_recv(struct side *s, unsigned i);
void say(struct side *s, unsigned i, size_t len);
void hear(struct side *s, size_t len);

void test_cq_data(const char *ip, const char *port, bool serves);
void test_rma(const char *ip, const char *port, bool serves);
void test_inject(const char *ip, const char *port, bool serves);
void test_many(const char *ip, const char *port, bool serves);
void test_shared(const char *ip, const char *port, bool serves);
void test_resources(const char *ip, const char *port, bool serves);
void test_refused(const char *ip, const char *port, bool serves);
void test_shutdown(const char *ip, const char *port, bool serves);
void test_closed(const char *ip, const char *port, bool serves);
void test_nobody(const char *ip, const char *port, bool serves);

/* rdm.c */
void test_rdm_tagged(const char *ip, const char *port, bool serves);
void test_rdm_rma(const char *ip, const char *port, bool serves);
void test_rdm_peers(const char *ip, const char *port, bool serves);
void test_rdm_big(const char *ip, const char *port, bool serves);

#endif

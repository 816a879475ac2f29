/* SPDX-License-Identifier: BSD-2-Clause */
/* refused.h - rows of calls with one bad argument each: the call, which argument is bad
 * and how, and the errno.  The text begins with the name that the header gives the
 * parameter: test_refused.py compares them with the headers' prototypes. */
#ifndef TESTS_REFUSED_H
#define TESTS_REFUSED_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <string.h>

/* Each returns a call's result as an errno: 0 for success, a negative number for a
 * result that no call may have. */
int of_errno(int rc);		  /* an errno, which is set, too */
int of_minus(long rc);		  /* -1, and errno */
int of_negative(long rc);	  /* -errno, which is set, too */
int of_pointer(const void *made); /* NULL, and errno */

/* Called before each row: if the row crashes, the last name printed is the row's. */
void row_begin(const char *call, const char *argument);
void row_end(int got, int want);

#define ROW_OF(name, argument, want, how, call)                                          \
	do {                                                                             \
		row_begin(name, argument);                                               \
		row_end(how(call), want);                                                \
	} while (0)
#define ROW(call, argument, want, how, args)                                             \
	ROW_OF(#call, argument, want, how, (call)args)
#define VOID(call, argument, args)                                                       \
	do {                                                                             \
		row_begin(#call, argument);                                              \
		(call) args;                                                             \
		row_end(0, 0);                                                           \
	} while (0)
/* The call accepts any value there, for this reason; other tests pass one. */
#define ANY(call, argument)                                                              \
	do {                                                                             \
		row_begin(#call, argument);                                              \
		row_end(0, 0);                                                           \
	} while (0)
/* An object that is NULL, and one that is freed: `o' in args. */
#define OBJECT(call, name, kind, want, how, args)                                        \
	do {                                                                             \
		void *o = NULL;                                                          \
		ROW(call, name " NULL", want, how, args);                                \
		o = gone.kind;                                                           \
		ROW(call, name " freed", want, how, args);                               \
	} while (0)
#define OBJECT_VOID(call, name, kind, args)                                              \
	do {                                                                             \
		void *o = NULL;                                                          \
		VOID(call, name " NULL", args);                                          \
		o = gone.kind;                                                           \
		VOID(call, name " freed", args);                                         \
	} while (0)

/* One object of each kind; QPs are UD, those of rc are RC. */
struct set {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp, *rc;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_dm *dm;
	struct ibv_td *td;
	struct ibv_xrcd *xrcd;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
};

/* own: to be used; foreign: of another context; gone: all freed, with nothing allocated
 * since. */
extern struct set own, foreign, gone;
extern struct ibv_device *device;
extern union ibv_gid gid; /* a GID of own's port */
extern char memory[4096];

void device_rows(void);
void object_rows(void);
void memory_rows(void);
void qp_rows(void);
void order_rows(void);
void operation_rows(void);
void cm_rows(void);
void socket_rows(void);
void stub_rows(void);

#endif

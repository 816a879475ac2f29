/* SPDX-License-Identifier: BSD-2-Clause */
/* abi.h - what the files of abi/ share: the context that a program holds, and
 * how a call begins and ends.
 *
 * Inside, calls answer 0 or -errno.  Here, and only here, that becomes what
 * verbs promise: integer verbs return a positive errno, pointer verbs NULL,
 * and errno is set in both cases.
 */
#ifndef ABI_ABI_H
#define ABI_ABI_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "core/event.h"
#include "sys/cancel.h"
#include "sys/fd.h"
#include "sys/list.h"
#include "sys/live.h"

struct core;
struct nic;
struct qp;
struct transport;

/* A symbol of ibverbs.map.  The rest of the library stays hidden. */
#define EXPORT __attribute__((visibility("default")))

/* A command descriptor's file.  As in the kernel, objects are the file's, not the
 * context's: they live until its last context is closed (file.c). */
struct abi_file {
	struct fd_id id;	       /* it says nothing, and is never readable */
	unsigned contexts;	       /* that are open; core->lock, as the others */
	struct abi_context *closed;    /* they are freed when all are */
	struct live *left[LIVE_KINDS]; /* what those have left */
};

struct abi_context {
	struct live live;
	struct context ctx;
	struct nic *nic;
	const struct transport *transport;
	struct abi_file *file;	    /* cmd_fd's */
	struct abi_context *next;   /* in file->closed */
	pid_t pid;		    /* whose: a child shares the descriptors */
	struct verbs_context verbs; /* the program holds &verbs.context */
};

static inline struct abi_context *abi_of(struct ibv_context *ibv)
{
	return container_of(ibv, struct abi_context, verbs.context);
}

/* How many of our calls this thread is inside of: 1, or 2 and more in signal
 * handlers.  A handler may poll; if it interrupted one of our calls its poll
 * answers 0, for the locks may be this thread's own.  Initial-exec, since the
 * first touch of a lazily allocated one calls malloc. */
extern __thread int abi_inside __attribute__((tls_model("initial-exec")));

/* Since which of these calls the thread cannot be cancelled, 0: it can; and what
 * it was before. */
extern __thread int abi_held __attribute__((tls_model("initial-exec")));
extern __thread int abi_was __attribute__((tls_model("initial-exec")));

static inline void abi_begin(void)
{
	abi_inside++;
	atomic_signal_fence(memory_order_seq_cst);
}

/* The call that has begun takes locks that are held across system calls: until it
 * ends, pthread_cancel() waits.  (What posts and polls come to holds it off where
 * it is needed: sys/cancel.h.) */
static inline void abi_hold(void)
{
	if (abi_held)
		return;
	abi_was = cancel_hold();
	abi_held = abi_inside;
}

static inline void abi_end(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	if (abi_held == abi_inside--) {
		abi_held = 0;
		cancel_let(abi_was);
	}
}

/* The same of a call that has not called abi_hold(). */
static inline void abi_end_brief(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	abi_inside--;
}

/* 0 or -errno becomes 0 or errno, as the caller sees it. */
static inline int abi_result(int rc)
{
	if (!rc)
		return 0;
	errno = -rc;
	return -rc;
}

/* Is ibv the parent's of a fork?  Not for fast paths: see ctx.dead. */
static inline bool abi_forked(struct ibv_context *ibv)
{
	return abi_of(ibv)->pid != getpid();
}

/* A call on ibv begins.  False: the context is dead (a forked child's, or its
 * descriptors are lost); errno is EIO and abi_leave() must not follow. */
static inline bool abi_enter(struct ibv_context *ibv)
{
	if (abi_of(ibv)->ctx.dead) {
		errno = EIO;
		return false;
	}
	abi_begin();
	return true;
}

/* What live.h knows an object by that a program names; of is cq_of, ...  Nothing
 * is read, and NULL stays NULL. */
#define LIVE(of, ibv) ((ibv) ? &of(ibv)->live : NULL)

/* live.c: a control call on an object begins, and cannot be cancelled.  Its context; or
 * NULL and errno, and abi_leave() must not follow: EIO as above, or gone, for an object
 * that does not exist.  As the kernel has it for handles, gone is EINVAL, but ENOENT
 * where the object was to be destroyed. */
struct ibv_context *abi_enter_on(const struct live *l, enum live_kind kind, int gone);
/* Does an object that call names exist, and is it ctx's?  0, a NULL too; or
 * -EINVAL. */
int abi_check(const char *call, const struct live *l, enum live_kind kind,
	      const struct ibv_context *ctx);

/* Is there what a program must give?  Where it is NULL rdma-core crashes; here a line
 * in the log says so, and errno is EINVAL. */
bool abi_given(const char *call, const char *what, const void *given);
#define GIVEN(call, pointer) abi_given(call, #pointer, pointer)

/* ... and ends with rc: what an integer verb returns. */
static inline int abi_leave(int rc)
{
	abi_end();
	return abi_result(rc);
}

/* As abi_enter_on() for a context; but a forked child may, too, for the call touches
 * nothing that a thread may have held which the fork left behind. */
bool abi_enter_child(struct ibv_context *ibv);

/* file.c: a file and its first descriptor. */
int file_make(struct abi_file **out, int *fd);
/* That of a context of this process with that identity, and its device; one more
 * context is going to have it.  NULL. */
struct abi_file *file_find(struct core *core, const struct fd_id *id,
			   struct ibv_device **dev);
/* A context that was to be is not. */
void file_leave(struct core *core, struct abi_file *file);
/* The context, which nobody finds any more, goes: at once or with its file. */
void file_close(struct abi_context *a);

/* context.c: all but out go over to the context, unless this fails. */
int abi_open_context(struct nic *nic, struct ibv_device *dev, struct abi_file *file,
		     int cmd_fd, struct abi_context **out);

/* What a program wants to open cannot be had, for the reason -rc: one line that says
 * what to do. */
void abi_say_unusable(const char *what, int rc);

/* ops.c: every operation of v answers EOPNOTSUPP. */
void abi_ops_none(struct verbs_context *v);

/* The operations that programs reach through pointers.  cq.c: */
int abi_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc);
int abi_req_notify_cq(struct ibv_cq *ibv, int solicited_only);
struct ibv_cq_ex *abi_create_cq_ex(struct ibv_context *ibv,
				   struct ibv_cq_init_attr_ex *attr);
int abi_modify_cq(struct ibv_cq *ibv, struct ibv_modify_cq_attr *attr);
/* cq_ex.c: */
struct cq;
void abi_cq_ex_ops(struct cq *cq);
/* qp.c, post.c, wr.c: */
/* Once no peer writes to memory through it.  0 or -EBUSY. */
int abi_end_qp(struct nic *nic, struct qp *qp);
struct ibv_qp *abi_open_qp(struct ibv_context *ibv, struct ibv_qp_open_attr *attr);
struct ibv_qp *abi_create_qp_ex(struct ibv_context *ibv,
				struct ibv_qp_init_attr_ex *attr);
int abi_modify_qp_rate_limit(struct ibv_qp *ibv, struct ibv_qp_rate_limit_attr *limit);
int abi_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int abi_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int abi_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad);
void abi_wr_ops(struct qp *qp);
/* flow.c: */
struct ibv_flow *abi_create_flow(struct ibv_qp *ibv, struct ibv_flow_attr *attr);
int abi_destroy_flow(struct ibv_flow *ibv);
struct ibv_counters *abi_create_counters(struct ibv_context *ibv,
					 struct ibv_counters_init_attr *attr);
int abi_attach_counters_point_flow(struct ibv_counters *ibv,
				   struct ibv_counter_attach_attr *attr,
				   struct ibv_flow *flow);
int abi_read_counters(struct ibv_counters *ibv, uint64_t *values, uint32_t n,
		      uint32_t flags);
int abi_destroy_counters(struct ibv_counters *ibv);
/* wq.c: */
struct ibv_wq *abi_create_wq(struct ibv_context *ibv, struct ibv_wq_init_attr *attr);
int abi_modify_wq(struct ibv_wq *ibv, struct ibv_wq_attr *attr);
int abi_destroy_wq(struct ibv_wq *ibv);
struct ibv_rwq_ind_table *abi_create_rwq_ind_table(
	struct ibv_context *ibv, struct ibv_rwq_ind_table_init_attr *attr);
int abi_destroy_rwq_ind_table(struct ibv_rwq_ind_table *ibv);
/* srq.c: */
struct ibv_srq *abi_create_srq_ex(struct ibv_context *ibv,
				  struct ibv_srq_init_attr_ex *attr);
int abi_get_srq_num(struct ibv_srq *ibv, uint32_t *num);
int abi_post_srq_ops(struct ibv_srq *ibv, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
struct ibv_xrcd *abi_open_xrcd(struct ibv_context *ibv, struct ibv_xrcd_init_attr *attr);
int abi_close_xrcd(struct ibv_xrcd *ibv);
/* domain.c: */
struct ibv_td *abi_alloc_td(struct ibv_context *ibv, struct ibv_td_init_attr *attr);
int abi_dealloc_td(struct ibv_td *ibv);
struct ibv_pd *abi_alloc_parent_domain(struct ibv_context *ibv,
				       struct ibv_parent_domain_init_attr *attr);
/* mr.c: */
struct ibv_mr *abi_alloc_null_mr(struct ibv_pd *ibv);
int abi_advise_mr(struct ibv_pd *ibv, enum ibv_advise_mr_advice advice, uint32_t flags,
		  struct ibv_sge *sge, uint32_t n);
/* dm.c: */
struct ibv_dm *abi_alloc_dm(struct ibv_context *ibv, struct ibv_alloc_dm_attr *attr);
int abi_free_dm(struct ibv_dm *ibv);
struct ibv_mr *abi_reg_dm_mr(struct ibv_pd *ibv, struct ibv_dm *dm, uint64_t offset,
			     size_t length, unsigned access);
/* mw.c: */
struct ibv_mw *abi_alloc_mw(struct ibv_pd *ibv, enum ibv_mw_type type);
int abi_dealloc_mw(struct ibv_mw *ibv);
int abi_bind_mw(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/* query.c: */
int abi_query_device_ex(struct ibv_context *ibv,
			const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t len);
int abi_query_port(struct ibv_context *ibv, uint8_t port, struct ibv_port_attr *attr,
		   size_t len);
int abi_query_rt_values(struct ibv_context *ibv, struct ibv_values_ex *values);

#endif

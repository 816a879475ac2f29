/* SPDX-License-Identifier: BSD-2-Clause */
/* abi.h - what the files of abi/ share: the context that a program holds, and how a call
 * begins and ends.
 *
 * The functions of other rooms return 0 or -errno. abi/ alone converts that to what verbs
 * promise: integer verbs return a positive errno, pointer verbs NULL, and errno is set in
 * both cases. */
#ifndef ABI_ABI_H
#define ABI_ABI_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "sys/cancel.h"
#include "sys/checks.h"
#include "sys/fd.h"
#include "sys/inside.h"
#include "sys/list.h"
#include "sys/live.h"
#include "sys/pid.h"
#include "sys/upset.h"
#include "verbs/event.h"

struct core;
struct nic;
struct qp;
struct transport;

/* A symbol of ibverbs.map. All other symbols of the library are hidden. */
#define EXPORT __attribute__((visibility("default")))

/* The file behind a command descriptor. As in the kernel, objects belong to the file and
 * not to the context: they live until its last context is closed (file.c). */
struct abi_file {
	/* Identity of the socket, which carries nothing and is never readable. */
	struct fd_id id;
	/* Number of open contexts; under core->lock, as the fields below. */
	unsigned contexts;
	struct abi_context *closed;    /* closed contexts, freed with the file */
	struct live *left[LIVE_KINDS]; /* objects that closed contexts have left */
};

struct abi_context {
	struct context ctx; /* must be first */
	struct nic *nic;
	const struct transport *transport;
	struct abi_file *file;	  /* the file of cmd_fd */
	struct abi_context *next; /* in file->closed */
};

static inline struct abi_context *abi_of(struct ibv_context *ibv)
{
	return container_of(context_of(ibv), struct abi_context, ctx);
}

/* Holds off cancellation until the call ends, as it takes locks that are held across
 * system calls. (Posts and polls do not call this: they hold cancellation off only where
 * needed, see sys/cancel.h.) */
static inline void abi_hold(void)
{
	if (inside_held)
		return;
	inside_was = cancel_hold();
	inside_held = inside_calls;
}

static inline void abi_end(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	if (inside_held == inside_calls--) {
		inside_held = 0;
		cancel_let(inside_was);
	}
}

/* Converts 0 or -errno to 0 or a positive errno, and sets errno. */
static inline int abi_result(int rc)
{
	if (!rc)
		return 0;
	errno = -rc;
	return -rc;
}

/* Did a parent process make ibv, before a fork? Too slow for posts and polls, which look
 * at ctx.dead. */
static inline bool abi_forked(struct ibv_context *ibv)
{
	return context_of(ibv)->pid != pid_own();
}

/* Begins a call on ibv. Returns false with errno EIO if the context is dead (of a forked
 * child, or its descriptors are lost); abi_leave() must not follow then. */
static inline bool abi_enter(struct ibv_context *ibv)
{
	if (abi_of(ibv)->ctx.dead) {
		errno = EIO;
		return false;
	}
	inside_begin();
	return true;
}

/* The struct live of an object that a program names; `of` is cq_of or the like. Reads
 * nothing of the object, and gives NULL for NULL. */
#define LIVE(of, ibv) ((ibv) ? &of(ibv)->live : NULL)

/* live.c: has this thread interrupted no other call? If it has, a control call must not
 * go on: it would wait for locks that the thread may hold. Returns false with errno
 * EDEADLK then. */
bool abi_alone(void);

/* live.c: begins a control call on an object, with cancellation held off. Returns the
 * object's context. Returns NULL with errno EDEADLK if !abi_alone(). Returns NULL with
 * errno EIO if the context is dead, or with errno `gone` if there is no such object;
 * abi_leave() must not follow then. gone is EINVAL, or ENOENT for a call that destroys,
 * as with the kernel's handles. */
struct ibv_context *abi_enter_on(const struct live *l, enum live_kind kind, int gone);
/* Is l, which the call names, an existing object of ctx? Returns 0, also for NULL, or
 * -EINVAL. */
int abi_check(const char *call, const struct live *l, enum live_kind kind,
	      const struct ibv_context *ctx);

/* Returns false with errno EINVAL, after logging it, if a required argument is NULL.
 * (rdma-core crashes.) */
bool abi_given(const char *call, const char *what, const void *given);
#define GIVEN(call, pointer) abi_given(call, #pointer, pointer)

/* Ends a call; returns what an integer verb returns for rc. */
static inline int abi_leave(int rc)
{
	abi_end();
	return abi_result(rc);
}

/* As abi_enter_on() for a context, but also allowed in a forked child: for calls that
 * need nothing which another thread may have held at the fork. */
bool abi_enter_child(struct ibv_context *ibv);

/* file.c: makes a file and its first descriptor. Returns 0 or -errno. */
int file_make(struct abi_file **out, int *fd);
/* Finds the file with that identity among the contexts of this process, sets *dev to its
 * device, and counts one more context, which the caller opens. NULL: none. */
struct abi_file *file_find(struct core *core, const struct fd_id *id,
			   struct ibv_device **dev);
/* Takes back the count of a context that was not opened. */
void file_leave(struct core *core, struct abi_file *file);
/* Closes a context that is in no table any more. Frees it at once, or with its file. */
void file_close(struct abi_context *a);

/* context.c: opens a context, which takes over nic, file and cmd_fd unless this fails.
 * Returns 0 or -errno. */
int abi_open_context(struct nic *nic, struct ibv_device *dev, struct abi_file *file,
		     int cmd_fd, struct abi_context **out);

/* Logs that `what` cannot be opened, for the reason -rc, and what the user can do. */
void abi_say_unusable(const char *what, int rc);

/* ops.c: makes every operation of v return EOPNOTSUPP. */
void abi_ops_none(struct verbs_context *v);

/* The operations that programs call through pointers. In cq.c: */
int abi_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc);
int abi_poll_cq_one(struct ibv_cq *ibv, int n, struct ibv_wc *wc);
/* URNIC_LIKE: errors that the context's polls return have the vendor_err of that device.
 */
void abi_poll_like(struct ibv_context *ibv);
int abi_req_notify_cq(struct ibv_cq *ibv, int solicited_only);
struct ibv_cq_ex *abi_create_cq_ex(struct ibv_context *ibv,
				   struct ibv_cq_init_attr_ex *attr);
int abi_modify_cq(struct ibv_cq *ibv, struct ibv_modify_cq_attr *attr);
/* cq_ex.c: */
struct cq;
void abi_cq_ex_ops(struct cq *cq);
/* qp.c, post.c, wr.c: */
/* Destroys a QP once no peer process accesses memory through it. Returns 0 or -EBUSY. */
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

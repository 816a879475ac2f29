/* SPDX-License-Identifier: BSD-2-Clause */
/* layout.h - checks the parts of the ABI that are compiled into programs and can
 * therefore never change.
 *
 * struct verbs_context grows at its front. A program built against any release finds a
 * field by its distance from the ibv_context at the end, and knows from sz whether the
 * field exists. The newest field is query_port (rdma-core 17); later functions are
 * symbols. The offsets are those of LP64. A mutex has 40 bytes, and 48 on arm64, so what
 * stands behind a mutex stands elsewhere there. */
#ifndef ABI_LAYOUT_H
#define ABI_LAYOUT_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stddef.h>

#if defined(__aarch64__)
#define MUTEX 48
#else
#define MUTEX 40
#endif
_Static_assert(sizeof(pthread_mutex_t) == MUTEX && sizeof(pthread_cond_t) == 48,
	       "pthread types");

#define AT(type, field, offset)                                                          \
	_Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
#define SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)
/* below: bytes from the field to the ibv_context that the program holds. */
#define BELOW(field, below)                                                              \
	_Static_assert(offsetof(struct verbs_context, context) -                         \
				       offsetof(struct verbs_context, field) ==          \
			       (below),                                                  \
		       #field)

SIZE(ibv_device, 664);
AT(ibv_device, node_type, 16);
AT(ibv_device, transport_type, 20);
AT(ibv_device, name, 24);
AT(ibv_device, dev_name, 88);
AT(ibv_device, dev_path, 152);
AT(ibv_device, ibdev_path, 408);

SIZE(ibv_context, 288 + MUTEX);
AT(ibv_context, device, 0);
AT(ibv_context, ops, 8);
AT(ibv_context, cmd_fd, 264);
AT(ibv_context, async_fd, 268);
AT(ibv_context, num_comp_vectors, 272);
AT(ibv_context, mutex, 280);
AT(ibv_context, abi_compat, 280 + MUTEX);

SIZE(ibv_context_ops, 256);
AT(ibv_context_ops, alloc_mw, 56);
AT(ibv_context_ops, bind_mw, 64);
AT(ibv_context_ops, dealloc_mw, 72);
AT(ibv_context_ops, poll_cq, 88);
AT(ibv_context_ops, req_notify_cq, 96);
AT(ibv_context_ops, post_srq_recv, 160);
AT(ibv_context_ops, post_send, 200);
AT(ibv_context_ops, post_recv, 208);

BELOW(sz, 8);
BELOW(_ABI_placeholder3, 16);
BELOW(close_xrcd, 24);
BELOW(open_xrcd, 32);
BELOW(create_srq_ex, 40);
BELOW(get_srq_num, 48);
BELOW(create_qp_ex, 56);
BELOW(open_qp, 64);
BELOW(ibv_create_flow, 80);
BELOW(ibv_destroy_flow, 96);
BELOW(query_device_ex, 104);
BELOW(priv, 112);
BELOW(create_cq_ex, 120);
BELOW(query_rt_values, 128);
BELOW(create_wq, 136);
BELOW(modify_wq, 144);
BELOW(destroy_wq, 152);
BELOW(create_rwq_ind_table, 160);
BELOW(destroy_rwq_ind_table, 168);
BELOW(post_srq_ops, 176);
BELOW(modify_cq, 184);
BELOW(alloc_td, 192);
BELOW(dealloc_td, 200);
BELOW(alloc_parent_domain, 208);
BELOW(modify_qp_rate_limit, 216);
BELOW(create_flow_action_esp, 224);
BELOW(destroy_flow_action, 232);
BELOW(modify_flow_action_esp, 240);
BELOW(free_dm, 248);
BELOW(alloc_dm, 256);
BELOW(reg_dm_mr, 264);
BELOW(destroy_counters, 272);
BELOW(create_counters, 280);
BELOW(attach_counters_point_flow, 288);
BELOW(read_counters, 296);
BELOW(alloc_null_mr, 304);
BELOW(advise_mr, 312);
BELOW(query_port, 320);

AT(ibv_qp, state, 56);
AT(ibv_qp, mutex, 64);
AT(ibv_qp, cond, 64 + MUTEX);
AT(ibv_qp, events_completed, 112 + MUTEX);
AT(ibv_qp_ex, comp_mask, 120 + MUTEX);
AT(ibv_qp_ex, wr_id, 128 + MUTEX);
AT(ibv_qp_ex, wr_flags, 136 + MUTEX);
AT(ibv_qp_ex, wr_atomic_cmp_swp, 144 + MUTEX);
AT(ibv_qp_ex, wr_start, 280 + MUTEX);
AT(ibv_qp_ex, wr_complete, 288 + MUTEX);
AT(ibv_qp_ex, wr_abort, 296 + MUTEX);
AT(ibv_cq, cqe, 28);
AT(ibv_cq, comp_events_completed, 80 + MUTEX);
AT(ibv_cq, async_events_completed, 84 + MUTEX);
AT(ibv_cq_ex, comp_mask, 88 + MUTEX);
AT(ibv_cq_ex, status, 92 + MUTEX);
AT(ibv_cq_ex, wr_id, 96 + MUTEX);
AT(ibv_cq_ex, start_poll, 104 + MUTEX);
AT(ibv_cq_ex, read_completion_wallclock_ns, 240 + MUTEX);

SIZE(ibv_srq, 88 + MUTEX);
SIZE(ibv_mr, 48);
SIZE(ibv_pd, 16);
SIZE(ibv_mw, 32);
SIZE(ibv_ah, 24);
SIZE(ibv_comp_channel, 16);
SIZE(ibv_device_attr, 232);
SIZE(ibv_qp_attr, 144);
SIZE(ibv_qp_init_attr, 64);
SIZE(ibv_send_wr, 128);
SIZE(ibv_wc, 48);
SIZE(ibv_gid_entry, 32);
/* ibv_create_qp() takes the head of the struct that create_qp_ex takes. */
_Static_assert(offsetof(struct ibv_qp_init_attr, sq_sig_all) ==
		       offsetof(struct ibv_qp_init_attr_ex, sq_sig_all),
	       "init_attr");

#undef MUTEX
#undef AT
#undef SIZE
#undef BELOW

#endif

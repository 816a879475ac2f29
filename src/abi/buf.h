/* SPDX-License-Identifier: BSD-2-Clause */
/* buf.h - calls of newer releases of rdma-core than Debian's, whose verbs.h does not have
 * them: buffers that the library allocates (1.17, 1.18), and regions that a struct
 * describes (1.15). Here they have names of their own, as a newer verbs.h declares the
 * others. */
#ifndef ABI_BUF_H
#define ABI_BUF_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct buf;

/* Bits of buf_mr_attr.comp_mask: which members are given. */
enum {
	BUF_MR_IOVA = 1 << 0,
	BUF_MR_ADDR = 1 << 1,
	BUF_MR_FD = 1 << 2, /* of a DMA-buf */
	BUF_MR_FD_OFFSET = 1 << 3,
	BUF_MR_DMAH = 1 << 4,
	BUF_MR_BUF = 1 << 5,
};

/* As struct ibv_mr_init_attr. */
struct buf_mr_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct buf *buf; /* since 1.17 */
};

/* ibv_alloc_buf(): pages of the process. Returns NULL and errno if there is no memory. */
void *abi_alloc_buf(struct ibv_pd *ibv, size_t size, struct buf **out);
/* ibv_free_buf(): a handle that does not exist is ignored. */
void abi_free_buf(struct buf *buf);
/* ibv_export_buf_dmabuf_fd(): -1 and ENODATA, since no buffer here is a DMA-buf; EINVAL
 * for a handle that does not exist. */
int abi_export_buf_dmabuf_fd(struct buf *buf);
/* ibv_reg_buf_mr(): EINVAL if buf is of another PD, or the range is not within it. */
struct ibv_mr *abi_reg_buf_mr(struct ibv_pd *ibv, struct buf *buf, void *addr,
			      size_t length, int access);
/* ibv_reg_mr_ex(): EOPNOTSUPP for DMA-bufs, and for unknown bits. */
struct ibv_mr *abi_reg_mr_ex(struct ibv_pd *ibv, const struct buf_mr_attr *attr);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* buf.c - see buf.h. No context owns a buffer: it is memory of the program, which stays
 * when the device is closed, and in a forked child. */
#include "abi/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "abi/abi.h"
#include "abi/symver.h"
#include "sys/log.h"
#include "verbs/mr.h"

#define SHOWN __attribute__((used, visibility("hidden")))

struct buf {
	struct live live;
	const struct ibv_pd *pd; /* that it was allocated for; only compared */
	void *addr;
	size_t size;
};

static bool buf_lives(const struct buf *buf)
{
	const void *owner;

	return live_find(buf ? &buf->live : NULL, LIVE_BUF, &owner);
}

static int alloc(const struct ibv_pd *pd, size_t size, struct buf **out)
{
	struct buf *buf;

	if (!size)
		return -EINVAL;
	buf = calloc(1, sizeof(*buf));
	if (!buf)
		return -ENOMEM;
	buf->pd = pd;
	buf->size = size;
	buf->addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	if (buf->addr == MAP_FAILED) {
		free(buf);
		return -ENOMEM;
	}
	live_add(&buf->live, LIVE_BUF, NULL);
	*out = buf;
	return 0;
}

SHOWN void *abi_alloc_buf(struct ibv_pd *ibv, size_t size, struct buf **out)
{
	if (!GIVEN("alloc_buf", out))
		return NULL;
	if (!abi_enter_on(LIVE(pd_of, ibv), LIVE_PD, EINVAL))
		return NULL;
	return abi_leave(alloc(ibv, size, out)) ? NULL : (*out)->addr;
}

SHOWN void abi_free_buf(struct buf *buf)
{
	if (!abi_alone() || !buf_lives(buf))
		return;
	inside_begin();
	abi_hold();
	live_del(&buf->live);
	munmap(buf->addr, buf->size);
	free(buf);
	abi_end();
}

SHOWN int abi_export_buf_dmabuf_fd(struct buf *buf)
{
	if (abi_alone())
		errno = buf_lives(buf) ? ENODATA : EINVAL;
	return -1;
}

static int check_range(const struct ibv_pd *pd, const struct buf *buf, const void *addr,
		       size_t length)
{
	const char *why;
	size_t at;

	if (!buf || !buf_lives(buf)) {
		why = "there is no such buffer (freed already?)";
	} else if (buf->pd != pd) {
		why = "it is of another protection domain";
	} else {
		at = (size_t)((uintptr_t)addr - (uintptr_t)buf->addr);
		if (at <= buf->size && length <= buf->size - at)
			return 0;
		why = "the range is not within it";
	}
	log_info("region of a buffer refused: %s", why);
	return -EINVAL;
}

static int check_attr(const struct ibv_pd *pd, const struct buf_mr_attr *a)
{
	const uint64_t known = BUF_MR_IOVA | BUF_MR_ADDR | BUF_MR_BUF;

	if (a->comp_mask & BUF_MR_BUF && a->comp_mask & (BUF_MR_FD | BUF_MR_FD_OFFSET))
		return -EINVAL;
	if (a->comp_mask & ~known)
		return -EOPNOTSUPP;
	if (!(a->comp_mask & BUF_MR_ADDR))
		return -EINVAL;
	return a->comp_mask & BUF_MR_BUF ? check_range(pd, a->buf, a->addr, a->length)
					 : 0;
}

static int reg(struct ibv_pd *pd, const struct buf_mr_attr *a, struct mr **out)
{
	uint64_t iova = a->access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)a->addr;
	int rc = check_attr(pd, a);

	if (a->comp_mask & BUF_MR_IOVA)
		iova = a->iova;
	return rc ? rc : mr_reg(pd_of(pd), a->addr, a->length, iova, a->access, out);
}

SHOWN struct ibv_mr *abi_reg_mr_ex(struct ibv_pd *ibv, const struct buf_mr_attr *attr)
{
	struct mr *mr;

	if (!GIVEN("reg_mr_ex", attr))
		return NULL;
	if (!abi_enter_on(LIVE(pd_of, ibv), LIVE_PD, EINVAL))
		return NULL;
	return abi_leave(reg(ibv, attr, &mr)) ? NULL : &mr->ibv;
}

SHOWN struct ibv_mr *abi_reg_buf_mr(struct ibv_pd *ibv, struct buf *buf, void *addr,
				    size_t length, int access)
{
	const struct buf_mr_attr attr = { .length = length,
					  .access = access,
					  .comp_mask = BUF_MR_ADDR | BUF_MR_BUF,
					  .addr = addr,
					  .buf = buf };

	return abi_reg_mr_ex(ibv, &attr);
}

SYMBOL("ibv_reg_mr_ex_new", "ibv_reg_mr_ex@@IBVERBS_1.15", abi_reg_mr_ex)
SYMBOL("ibv_alloc_buf_new", "ibv_alloc_buf@@IBVERBS_1.17", abi_alloc_buf)
SYMBOL("ibv_free_buf_new", "ibv_free_buf@@IBVERBS_1.17", abi_free_buf)
SYMBOL("ibv_export_buf_dmabuf_fd_new", "ibv_export_buf_dmabuf_fd@@IBVERBS_1.18",
       abi_export_buf_dmabuf_fd)
SYMBOL("ibv_reg_buf_mr_new", "ibv_reg_buf_mr@@IBVERBS_1.17", abi_reg_buf_mr)

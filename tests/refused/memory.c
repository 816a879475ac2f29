/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions, and imported regions and device memory; the kernel's structs. */
#include "refused.h"

#include <dlfcn.h>
#include <fcntl.h>

static const int write_it = IBV_ACCESS_LOCAL_WRITE;

/* Ranges that wrap, are not mapped or are empty, and rights that no region grants: each
 * of the three calls refuses them in the same way. */
#define REGION(call, cast, before_access)                                                \
	do {                                                                             \
		OBJECT(call, "pd", pd, EINVAL, of_pointer,                               \
		       (o, memory, 64 before_access, cast write_it));                    \
		ROW(call, "addr NULL", EFAULT, of_pointer,                               \
		    (own.pd, NULL, 64 before_access, cast write_it));                    \
		ROW(call, "addr not mapped", EFAULT, of_pointer,                         \
		    (own.pd, (void *)4096, 64 before_access, cast write_it));            \
		ROW(call, "length 0", EINVAL, of_pointer,                                \
		    (own.pd, memory, 0 before_access, cast write_it));                   \
		ROW(call, "length past the end", EINVAL, of_pointer,                     \
		    (own.pd, memory, SIZE_MAX before_access, cast write_it));            \
		ROW(call, "access unknown", EINVAL, of_pointer,                          \
		    (own.pd, memory, 64 before_access, cast(1 << 12)));                  \
		ROW(call, "access remote without local", EINVAL, of_pointer,             \
		    (own.pd, memory, 64 before_access, cast IBV_ACCESS_REMOTE_WRITE));   \
	} while (0)
#define COMMA_IOVA , 0

static void regions(void)
{
	REGION(ibv_reg_mr, (int), );
	REGION(ibv_reg_mr_iova, (int), COMMA_IOVA);
	REGION(ibv_reg_mr_iova2, (unsigned), COMMA_IOVA);
	ROW(ibv_reg_mr_iova, "iova past the end", EINVAL, of_pointer,
	    (own.pd, memory, 64, UINT64_MAX - 5, write_it));
	ROW(ibv_reg_mr_iova2, "iova past the end", EINVAL, of_pointer,
	    (own.pd, memory, 64, UINT64_MAX - 5, (unsigned)write_it));
	OBJECT(ibv_dereg_mr, "mr", mr, ENOENT, of_errno, (o));
	OBJECT(ibv_import_mr, "pd", pd, EINVAL, of_pointer, (o, own.mr->handle));
	ROW(ibv_import_mr, "mr_handle unknown", ENOENT, of_pointer, (own.pd, UINT32_MAX));
	OBJECT_VOID(ibv_unimport_mr, "mr", mr, (o));
	VOID(ibv_unimport_mr, "mr not imported", (own.mr));
	OBJECT(ibv_import_dm, "context", ctx, EBADF, of_pointer, (o, own.dm->handle));
	ROW(ibv_import_dm, "dm_handle unknown", ENOENT, of_pointer,
	    (own.ctx, UINT32_MAX));
	OBJECT_VOID(ibv_unimport_dm, "dm", dm, (o));
	VOID(ibv_unimport_dm, "dm not imported", (own.dm));
	ANY(ibv_dofork_range, "base: nothing is to be done, of any address");
	ANY(ibv_dofork_range, "size: nothing is to be done, of any size");
	ANY(ibv_dontfork_range, "base: nothing is to be done, of any address");
	ANY(ibv_dontfork_range, "size: nothing is to be done, of any size");
}

/* Of newer releases of rdma-core: Debian's verbs.h does not have them. */
static void buffers(void)
{
	struct {
		size_t length;
		int access;
		uint64_t comp_mask, iova;
		void *addr;
		int fd;
		uint64_t fd_offset;
		void *dmah, *buf;
	} attr = { .length = 64, .access = write_it, .comp_mask = 1 << 1 };
	void *(*alloc)(void *pd, size_t size, void **buf) =
		dlvsym(RTLD_DEFAULT, "ibv_alloc_buf", "IBVERBS_1.17");
	void *(*reg)(void *pd, void *buf, void *addr, size_t length, int access) =
		dlvsym(RTLD_DEFAULT, "ibv_reg_buf_mr", "IBVERBS_1.17");
	void (*drop)(void *buf) = dlvsym(RTLD_DEFAULT, "ibv_free_buf", "IBVERBS_1.17");
	int (*export)(void *buf) =
		dlvsym(RTLD_DEFAULT, "ibv_export_buf_dmabuf_fd", "IBVERBS_1.18");
	void *(*reg_ex)(void *pd, void *attr) =
		dlvsym(RTLD_DEFAULT, "ibv_reg_mr_ex", "IBVERBS_1.15");
	void *buf, *at = alloc(own.pd, 64, &buf), *o[] = { NULL, gone.pd };
	struct ibv_mr *mr;

	for (int i = 0; i < 2; i++) {
		const char *which = i ? "pd freed" : "pd NULL";

		ROW_OF("ibv_alloc_buf", which, EINVAL, of_pointer, alloc(o[i], 64, &buf));
		ROW_OF("ibv_reg_buf_mr", which, EINVAL, of_pointer,
		       reg(o[i], buf, at, 64, write_it));
		ROW_OF("ibv_reg_mr_ex", which, EINVAL, of_pointer, reg_ex(o[i], &attr));
	}
	ROW_OF("ibv_alloc_buf", "size 0", EINVAL, of_pointer, alloc(own.pd, 0, &buf));
	ROW_OF("ibv_alloc_buf", "buf NULL", EINVAL, of_pointer, alloc(own.pd, 64, NULL));
	ROW_OF("ibv_reg_buf_mr", "buf NULL", EINVAL, of_pointer,
	       reg(own.pd, NULL, at, 64, write_it));
	ROW_OF("ibv_reg_buf_mr", "addr past the end", EINVAL, of_pointer,
	       reg(own.pd, buf, (char *)at + 65, 0, write_it));
	ROW_OF("ibv_reg_buf_mr", "length past the end", EINVAL, of_pointer,
	       reg(own.pd, buf, at, 65, write_it));
	ROW_OF("ibv_reg_mr_ex", "mr_init_attr NULL", EINVAL, of_pointer,
	       reg_ex(own.pd, NULL));
	ROW_OF("ibv_reg_mr_ex", "addr NULL", EFAULT, of_pointer, reg_ex(own.pd, &attr));
	ROW_OF("ibv_reg_buf_mr", "all good", -1000, of_pointer,
	       mr = reg(own.pd, buf, at, 64, write_it));
	ibv_dereg_mr(mr);
	attr.addr = at;
	ROW_OF("ibv_reg_mr_ex", "all good", -1000, of_pointer,
	       mr = reg_ex(own.pd, &attr));
	ibv_dereg_mr(mr);
	attr.comp_mask = 1 << 5 | 1 << 1;
	ROW_OF("ibv_reg_mr_ex", "buf NULL", EINVAL, of_pointer, reg_ex(own.pd, &attr));
	attr.comp_mask = 1 << 2;
	ROW_OF("ibv_reg_mr_ex", "fd of a DMA-buf", EOPNOTSUPP, of_pointer,
	       reg_ex(own.pd, &attr));
	ROW_OF("ibv_export_buf_dmabuf_fd", "buf that is no DMA-buf", ENODATA, of_minus,
	       export(buf));
	ROW_OF("ibv_export_buf_dmabuf_fd", "buf NULL", EINVAL, of_minus, export(NULL));
	row_begin("ibv_free_buf", "buf NULL");
	drop(NULL);
	row_end(0, 0);
	drop(buf);
	row_begin("ibv_free_buf", "buf freed");
	drop(buf);
	row_end(0, 0);
	ROW_OF("ibv_export_buf_dmabuf_fd", "buf freed", EINVAL, of_minus, export(buf));
	ROW_OF("ibv_reg_buf_mr", "buf freed", EINVAL, of_pointer,
	       reg(own.pd, buf, at, 64, write_it));
}

/* Expects the result IBV_REREG_MR_ERR_INPUT, and returns errno. */
static int of_input(int rc)
{
	return rc == IBV_REREG_MR_ERR_INPUT ? errno : -1000 - rc;
}

static int of_command(int rc)
{
	return rc == IBV_REREG_MR_ERR_CMD ? errno : -1000 - rc;
}

static void reregister(void)
{
	const int all = IBV_REREG_MR_CHANGE_TRANSLATION, pd = IBV_REREG_MR_CHANGE_PD,
		  access = IBV_REREG_MR_CHANGE_ACCESS;

	OBJECT(ibv_rereg_mr, "mr", mr, EINVAL, of_input,
	       (o, access, NULL, NULL, 0, write_it));
	ROW(ibv_rereg_mr, "flags 0", EINVAL, of_command, (own.mr, 0, NULL, NULL, 0, 0));
	ROW(ibv_rereg_mr, "flags unknown", EINVAL, of_input,
	    (own.mr, 1 << 20, NULL, NULL, 0, 0));
	OBJECT(ibv_rereg_mr, "pd", pd, EINVAL, of_input, (own.mr, pd, o, NULL, 0, 0));
	ROW(ibv_rereg_mr, "pd of another context", EINVAL, of_input,
	    (own.mr, pd, foreign.pd, NULL, 0, 0));
	ROW(ibv_rereg_mr, "addr NULL", EINVAL, of_input,
	    (own.mr, all, NULL, NULL, 64, 0));
	ROW(ibv_rereg_mr, "length 0", EINVAL, of_input,
	    (own.mr, all, NULL, memory, 0, 0));
	ROW(ibv_rereg_mr, "access unknown", EINVAL, of_command,
	    (own.mr, access, NULL, NULL, 0, 1 << 12));
}

void memory_rows(void)
{
	regions();
	buffers();
	reregister();
}

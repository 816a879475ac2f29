/* SPDX-License-Identifier: BSD-2-Clause */
/* like.c - see like.h. */
#include "verbs/like.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/verr.h"
#include "verbs/wr_op.h"

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* Written before there is a device, and then only read. */
static struct like like;
static char spec[64];

const char *like_spec(void)
{
	return spec;
}

static uint32_t lower(uint32_t own, enum like_limit limit)
{
	return like.limit[limit].most < own ? (uint32_t)like.limit[limit].most : own;
}

static void narrow_limits(void)
{
	caps.max_qp_wr = lower(caps.max_qp_wr, LIKE_max_qp_wr);
	caps.max_sge = lower(caps.max_sge, LIKE_max_sge);
	caps.max_sge_rd = lower(caps.max_sge_rd, LIKE_max_sge_rd);
	caps.max_inline = lower(caps.max_inline, LIKE_max_inline_data);
	caps.max_cqe = lower(caps.max_cqe, LIKE_max_cqe);
	caps.max_pd = lower(caps.max_pd, LIKE_max_pd);
	caps.max_srq_sge = lower(caps.max_srq_sge, LIKE_max_srq_sge);
	caps.max_gids = lower(caps.max_gids, LIKE_gid_tbl_len);
	caps.max_dest_rd_atomic =
		(uint8_t)lower(caps.max_dest_rd_atomic, LIKE_max_qp_rd_atom);
	caps.max_rd_atomic = (uint8_t)lower(caps.max_rd_atomic, LIKE_max_qp_init_rd_atom);
	caps.max_msg = lower(caps.max_msg, LIKE_max_msg_sz);
	caps.max_mr_size = like.limit[LIKE_max_mr_size].most;
	caps.atomic_cap = (uint8_t)lower(caps.atomic_cap, LIKE_atomic_cap);
}

static bool has_not(enum like_feature f)
{
	return like.lacks & 1u << f;
}

/* The types of QPs that a feature is. */
static const struct {
	enum like_feature feature;
	unsigned types;
} types[] = {
	{ LIKE_UC, 1u << IBV_QPT_UC },
	{ LIKE_UD, 1u << IBV_QPT_UD },
	{ LIKE_RAW, 1u << IBV_QPT_RAW_PACKET },
	{ LIKE_XRC, 1u << IBV_QPT_XRC_SEND | 1u << IBV_QPT_XRC_RECV },
};

/* The opcodes that a feature is. */
static const struct {
	enum like_feature feature;
	unsigned op[2];
} ops[] = {
	{ LIKE_ATOMICS, { IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD } },
	{ LIKE_IMM, { IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM } },
	{ LIKE_A19, { IBV_WR_ATOMIC_WRITE, IBV_WR_FLUSH } },
};

static void narrow_features(void)
{
	caps.lacks = like.lacks;
	caps.v1_gids = like.also & 1u << LIKE_V1_GIDS;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		caps.lacks_qp_types |= has_not(types[i].feature) ? types[i].types : 0;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (has_not(ops[i].feature))
			wr_op_remove(ops[i].op[0], ops[i].op[1]);
	if (caps.max_sge_rd < caps.max_sge)
		wr_op_few_sges(IBV_WR_RDMA_READ);
}

void like_begin(const char *text)
{
	char err[256];

	if (!*text || *spec || like_parse(text, &like, err, sizeof(err)))
		return;
	snprintf(spec, sizeof(spec), "%s", text);
	caps.as_hardware = true;
	narrow_limits();
	narrow_features();
	log_info(
		"devices are like %s (URNIC_LIKE): its limits are kept, what it lacks is "
		"refused, a missing receive is answered with RNR at once, and regions "
		"are pinned: RLIMIT_MEMLOCK is kept",
		spec);
}

const char *like_limit_text(enum like_limit limit, char text[static LIKE_TEXT])
{
	*text = '\0';
	if (like.devices && like.limit[limit].most != UINT64_MAX)
		snprintf(text, LIKE_TEXT, "; %s has %s %llu",
			 like_device_name(like.limit[limit].of), like_limit_name(limit),
			 (unsigned long long)like.limit[limit].most);
	return text;
}

const char *like_op_text(unsigned opcode, char text[static LIKE_TEXT])
{
	*text = '\0';
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (has_not(ops[i].feature) &&
		    (opcode == ops[i].op[0] || opcode == ops[i].op[1]))
			snprintf(text, LIKE_TEXT, "%s has no %s (URNIC_LIKE)",
				 like_device_name(like.lacking[ops[i].feature]),
				 like_feature_text(ops[i].feature));
	return text;
}

int like_refuse(enum like_feature feature, const char *call)
{
	log_info("%s refused: %s has no %s (URNIC_LIKE)", call,
		 like_device_name(like.lacking[feature]), like_feature_text(feature));
	return -EOPNOTSUPP;
}

int like_lacks_type(enum ibv_qp_type type)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (has_not(types[i].feature) && types[i].types & 1u << type)
			return like_refuse(types[i].feature, "create_qp");
	return 0;
}

/* --- what a driver reports ------------------------------------------------- */

uint32_t like_depth(enum like_depth depth, uint32_t n, uint32_t limit)
{
	uint64_t least = limit;

	if (!like.devices || n > limit)
		return n;
	for (unsigned d = 0; d < LIKE_DEVICES; d++)
		if (like.devices & 1u << d && like_depth_of(d, depth, n) < least)
			least = like_depth_of(d, depth, n);
	return (uint32_t)least;
}

bool like_has_vendor(void)
{
	return like.devices && !(like.devices & (like.devices - 1));
}

uint32_t like_vendor_err(enum ibv_wc_status status, uint32_t own)
{
	static const uint8_t vendors[] = {
	/* and one, since there is 0 */
#define VENDOR(status, ...) [IBV_WC_##status] = LIKE_VENDOR_##status + 1,
#include "sys/like.def"
	};
	uint64_t of;

	if (!like_has_vendor() || status >= sizeof(vendors) || !vendors[status] ||
	    own == VERR_UPSET)
		return own;
	of = like_vendor_of((enum like_device)__builtin_ctz(like.devices),
			    vendors[status] - 1u);
	return of == UINT64_MAX ? own : (uint32_t)of;
}

/* --- memory that is pinned ------------------------------------------------- */

static size_t pages_of(const void *addr, size_t length)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)addr;

	return length ? ((at + length - 1) / page) - at / page + 1 : 0;
}

/* The kernel asks for the capability in the first user namespace, whose number is fixed
 * (PROC_USER_INIT_INO). */
static bool may_pin_all(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };
	struct stat st;

	if (syscall(SYS_capget, &head, data) ||
	    !(data[CAP_IPC_LOCK / 32].effective & 1u << CAP_IPC_LOCK % 32))
		return false;
	return !stat("/proc/self/ns/user", &st) && st.st_ino == 0xEFFFFFFDu;
}

/* Counts the pages of a region; their number without an error stays counted. */
static int count_pages(struct core *core, const void *addr, size_t length)
{
	const size_t pages = pages_of(addr, length);
	const size_t all = atomic_fetch_add(&core->counts.pinned, pages) + pages;
	struct rlimit most;

	if (getrlimit(RLIMIT_MEMLOCK, &most) || most.rlim_cur == RLIM_INFINITY ||
	    all <= most.rlim_cur / (size_t)sysconf(_SC_PAGESIZE) || may_pin_all())
		return 0;
	atomic_fetch_sub(&core->counts.pinned, pages);
	log_info("memory region refused: %zu bytes at %p: the process's regions would be "
		 "%zu pages, and RLIMIT_MEMLOCK (ulimit -l) is %llu bytes; %s pins them",
		 length, addr, all, (unsigned long long)most.rlim_cur, spec);
	return -ENOMEM;
}

static int advise_pages(const void *addr, size_t length, int advice)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)addr;

	return madvise((void *)(at / page * page), pages_of(addr, length) * page, advice)
		       ? errno
		       : 0;
}

/* Brings the pages into memory, as pinning does: new ones are filled with zeros, and
 * copied where they are shared since a fork. EINVAL: they must not be touched so, or are
 * a device's, which pinning refuses, too; or Linux is older than 5.14. */
static int populate(const void *addr, size_t length, int access)
{
	const int rc = advise_pages(addr, length,
				    access & IBV_ACCESS_LOCAL_WRITE ? MADV_POPULATE_WRITE
								    : MADV_POPULATE_READ);

	if (!rc || (rc == EINVAL && advise_pages(spec, 1, MADV_POPULATE_READ) == EINVAL))
		return 0;
	log_info("memory region refused: %zu bytes at %p cannot be brought into memory: "
		 "%s; %s pins them",
		 length, addr, strerror(rc), spec);
	return rc == ENOMEM ? -ENOMEM : -EFAULT;
}

int like_pin(struct core *core, const void *addr, size_t length, int access)
{
	int rc;

	if (!caps.as_hardware || access & IBV_ACCESS_ON_DEMAND)
		return 0;
	rc = count_pages(core, addr, length);
	if (rc)
		return rc;
	rc = populate(addr, length, access);
	if (rc)
		like_unpin(core, addr, length, access);
	return rc;
}

void like_unpin(struct core *core, const void *addr, size_t length, int access)
{
	if (caps.as_hardware && !(access & IBV_ACCESS_ON_DEMAND))
		atomic_fetch_sub(&core->counts.pinned, pages_of(addr, length));
}

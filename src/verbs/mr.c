/* SPDX-License-Identifier: BSD-2-Clause */
/* mr.c - see mr.h.  Windows are in mw.c, the table of keys is in mkey.c. */
#include "verbs/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys/guard.h"
#include "sys/log.h"
#include "sys/procmaps.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/exports.h"
#include "verbs/flush.h"
#include "verbs/like.h"
#include "verbs/mkey.h"
#include "verbs/null_memory.h"

struct mr *mr_of(struct ibv_mr *ibv)
{
	return container_of(ibv, struct mr, ibv);
}

static bool is_implicit(const void *addr, size_t length, int access)
{
	return !addr && length == SIZE_MAX && access & IBV_ACCESS_ON_DEMAND;
}

/* Neither range may wrap. As in the kernel's ib_umem_get(), a region of length 0
 * grants nothing, and is refused if it does not touch a page. */
static int check_range(const void *addr, size_t length, uint64_t base)
{
	uintptr_t start = (uintptr_t)addr;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	if (length == 0)
		return start % page ? 0 : -EINVAL;
	if (length > UINTPTR_MAX - start || start + length > UINTPTR_MAX - (page - 1))
		return -EINVAL;
	return length - 1 <= UINT64_MAX - base ? 0 : -EINVAL;
}

static void probe_read(void *arg)
{
	(void)*(const volatile uint8_t *)arg;
}

/* Stores without changing the value and without losing another thread's store. The
 * operand is volatile because compilers turn a known |= 0 into a load. TSan is off
 * because the program may access the memory at the same time. */
__attribute__((no_sanitize("thread"))) static void probe_write(void *arg)
{
	volatile uint8_t none = 0;

	__atomic_fetch_or((uint8_t *)arg, none, __ATOMIC_RELAXED);
}

/* Is all of the range mapped, and are its ends accessible as the region needs
 * it?  A NIC would pin all pages; here that costs a walk over the mappings and two
 * accesses, so regions of many GB register at once.  What lies between is checked when
 * it is used. */
static int check_memory(void *addr, size_t length, int access)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)addr & ~(page - 1);
	uintptr_t end = ((uintptr_t)addr + length + page - 1) & ~(page - 1);
	bool write = access & IBV_ACCESS_LOCAL_WRITE, fault;
	void (*probe)(void *) = write ? probe_write : probe_read;
	unsigned opened;

	if (access & IBV_ACCESS_ON_DEMAND || length == 0)
		return 0;
	opened = guard_open();
	fault = guard_call(probe, addr) ||
		(end - start > page && guard_call(probe, (uint8_t *)addr + length - 1)) ||
		!mapped_all(start, end);
	guard_close(opened);
	if (!fault)
		return 0;
	log_info("memory region refused: %zu bytes at %p are not mapped%s", length, addr,
		 write ? ", or not writable" : "");
	return -EFAULT;
}

static int check_reg(const struct pd *pd, void *addr, size_t length, uint64_t base,
		     int access)
{
	int rc = mr_check_access(pd, access);
	char whose[LIKE_TEXT];

	if (rc || is_implicit(addr, length, access))
		return rc;
	rc = check_range(addr, length, base);
	if (rc) {
		log_info("memory region refused: %zu bytes at %p (iova %#llx): "
			 "empty, or past the end of memory",
			 length, addr, (unsigned long long)base);
		return rc;
	}
	if (length > caps.max_mr_size) {
		log_info("memory region refused: %zu bytes%s", length,
			 like_limit_text(LIKE_max_mr_size, whose));
		return -EINVAL;
	}
	return check_memory(addr, length, access);
}

int mr_make(struct pd *pd, const struct mkey *like, struct mr **out)
{
	struct core *core = pd->core;
	struct mr *mr;
	int rc;

	rc = count_up(&core->counts.mrs, caps.max_mr);
	if (rc)
		return rc;
	mr = calloc(1, sizeof(*mr));
	if (!mr) {
		rc = -ENOMEM;
		goto uncount;
	}
	mr->core = core;
	mr->mkey = *like;
	mr->mkey.pd = pd_proper(pd);
	rc = mkey_add(&core->mkeys, &mr->mkey);
	if (rc)
		goto release;
	exports_put_mr(core, &mr->mkey); /* the calling thread is the entry's only
					  * writer */
	pd_use(pd);
	mr->ibv = (struct ibv_mr){
		.context = pd->ibv.context,
		.pd = &pd->ibv,
		.addr = like->host,
		.length = like->length,
		.handle = mr->mkey.key,
		.lkey = mr->mkey.key,
		.rkey = mr->mkey.key,
	};
	live_add(&mr->live, LIVE_MR, mr->ibv.context);
	*out = mr;
	return 0;
release:
	free(mr);
uncount:
	count_down(&core->counts.mrs);
	return rc;
}

/* core->region.added and mr_removed are called only for regions of program memory. */
static void tell_added(struct core *core, const struct mkey *mk)
{
	if (core->region.added)
		core->region.added(core, mk);
}

static void tell_removed(struct core *core, const struct mkey *mk)
{
	if (core->region.removed)
		core->region.removed(core, mk);
}

static bool is_told(const struct mr *mr)
{
	return !mr->release;
}

int mr_reg(struct pd *pd, void *addr, size_t length, uint64_t iova, int access,
	   struct mr **out)
{
	struct core *core = pd->core;
	struct mkey like;
	int rc;

	if (access & IBV_ACCESS_ZERO_BASED || is_implicit(addr, length, access))
		iova = 0;
	guard_arm();
	rc = check_reg(pd, addr, length, iova, access);
	if (!rc)
		rc = like_pin(core, addr, length, access);
	if (rc)
		return rc;
	like = (struct mkey){ .pd = pd_proper(pd),
			      .valid = true,
			      .access = access,
			      .base = iova,
			      .length = length,
			      .host = addr };
	tell_added(core, &like);
	rc = mr_make(pd, &like, out);
	if (!rc)
		return 0;
	tell_removed(core, &like);
	like_unpin(core, addr, length, access);
	return rc;
}

/* Checks the arguments of a rereg by the rules of the kernel and rdma-core. */
static int check_rereg(const struct mr *mr, int flags, const struct pd *pd,
		       const void *addr, size_t length, int access)
{
	const int fixed = IBV_REREG_MR_CHANGE_TRANSLATION |
			  (mr->mkey.is_null ? IBV_REREG_MR_CHANGE_ACCESS : 0);

	if (mr->imported)
		return -EINVAL;
	/* The program has no address of it. */
	if (mr->release && flags & fixed)
		return -EINVAL;
	if (!flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED)
		return -EINVAL;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length))
		return -EINVAL;
	if (flags & IBV_REREG_MR_CHANGE_PD && !pd)
		return -EINVAL;
	if (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))
		return -EINVAL;
	return 0;
}

static void pass_copies(struct core *core)
{
	if (core->region.pass)
		core->region.pass(core);
}

/* Removes the region from the export table and waits until no process of the host uses
 * it. After a return of 0 none does. */
static int withdraw(struct core *core, const struct mkey *mk)
{
	int rc;

	if (!core->exports)
		return 0;
	turn_take(&core->turn);
	exports_del_mr(core, mk->key);
	turn_give(&core->turn);
	rc = core->region.wait(core, mk);
	if (!rc)
		return 0;
	turn_take(&core->turn);
	exports_put_mr(core, mk);
	turn_give(&core->turn);
	return rc;
}

/* Returns the region's mkey as the rereg changes it. */
static struct mkey changed(const struct mkey *mk, int flags, struct pd *pd, void *addr,
			   size_t length, int access)
{
	struct mkey new = {
		.access = mk->access,
		.pd = mk->pd,
		.base = mk->base,
		.length = mk->length,
		.host = mk->host,
	};

	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		new.access = access;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		new.pd = pd_proper(pd);
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		new.host = addr;
		new.length = length;
		new.base = new.access &IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr;
	}
	return new;
}

static void change_region(struct mr *mr, int flags, struct pd *pd, const struct mkey *new)
{
	struct mkey *mk = &mr->mkey;

	if (flags & IBV_REREG_MR_CHANGE_PD) {
		pd_use(pd);
		pd_unuse(pd_of(mr->ibv.pd));
		mr->ibv.pd = &pd->ibv;
	}
	mk->access = new->access;
	mk->pd = new->pd;
	mk->base = new->base;
	mk->length = new->length;
	mk->host = new->host;
	mk->lent = (struct fd_id){ 0 };
	mk->lent_more = false;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->ibv.addr = mk->host;
		mr->ibv.length = mk->length;
	}
}

/* Both are pinned for a moment, as in Linux. */
static int pin_other(struct core *core, const struct mkey *old, const struct mkey *new)
{
	const bool same = old->host == new->host && old->length == new->length &&
			  !((old->access ^ new->access) & IBV_ACCESS_ON_DEMAND);
	int rc = same ? 0 : like_pin(core, new->host, new->length, new->access);

	if (!rc && !same)
		like_unpin(core, old->host, old->length, old->access);
	return rc;
}

/* See mr.h. A failure restores the old region. */
int mr_rereg(struct mr *mr, int flags, struct pd *pd, void *addr, size_t length,
	     int access)
{
	struct mkey *mk = &mr->mkey, old, new;
	int rc = check_rereg(mr, flags, pd, addr, length, access);

	if (rc) {
		log_info("memory region 0x%08x: rereg_mr refused: flags %#x, %zu "
			 "bytes at %p, access %#x",
			 mk->key, (unsigned)flags, length, addr, (unsigned)access);
		return rc;
	}
	if (mr->leaving)
		return -EINVAL;
	atomic_store(&mk->moving, true);
	mkeys_changed(&mr->core->mkeys);
	pass_copies(mr->core); /* who reads the fields without the turn has ended */
	rc = withdraw(mr->core, mk);
	if (rc)
		goto out;
	old = changed(mk, 0, NULL, NULL, 0, 0);
	new = changed(mk, flags, pd, addr, length, access);
	turn_take(&mr->core->turn);
	rc = atomic_load(&mk->windows) ? -EBUSY
	     : mk->is_null
		     ? 0
		     : check_reg(new.pd, new.host, new.length, new.base, new.access);
	if (!rc && is_told(mr))
		rc = pin_other(mr->core, &old, &new);
	if (!rc)
		change_region(mr, flags, pd, &new);
	turn_give(&mr->core->turn);
	if (!rc && is_told(mr)) {
		tell_removed(mr->core, &old);
		tell_added(mr->core, mk);
	}
	turn_take(&mr->core->turn);
	exports_put_mr(mr->core, mk);
	turn_give(&mr->core->turn);
	if (rc == -EBUSY)
		log_info("memory region 0x%08x: rereg_mr refused: memory windows "
			 "are bound to it",
			 mk->key);
out:
	atomic_store(&mk->moving, false);
	return rc;
}

/* May be called again after -EBUSY. Does not hold the turn throughout, since a program
 * may register all the time. Removes the key for later lookups, then waits for threads
 * that looked it up before. */
int mr_dereg(struct mr *mr)
{
	struct core *core = mr->core;
	unsigned none = 0;

	if (mr->imported)
		return -EINVAL;
	if (!mr->leaving &&
	    !atomic_compare_exchange_strong(&mr->mkey.windows, &none, WINDOWS_NONE)) {
		log_info("memory region 0x%08x is not deregistered: memory windows "
			 "are bound to it",
			 mr->mkey.key);
		return -EBUSY;
	}
	if (!mr->leaving) {
		exports_del_mr(core, mr->mkey.key); /* the calling thread is still
						     * the entry's only writer */
		mkey_del(&core->mkeys, &mr->mkey);
	}
	mr->leaving = true;
	turn_pass(&core->turn);
	pass_copies(core);
	if (core->exports && core->region.wait(core, &mr->mkey))
		return -EBUSY;
	if (is_told(mr)) {
		tell_removed(core, &mr->mkey);
		like_unpin(core, mr->mkey.host, mr->mkey.length, mr->mkey.access);
	}
	live_del(&mr->live);
	pd_unuse(pd_of(mr->ibv.pd));
	count_down(&core->counts.mrs);
	if (mr->release)
		mr->release(mr);
	free(mr);
	return 0;
}

int mr_import(struct pd *pd, uint32_t handle,
	      bool (*ok)(const struct mr *mr, const void *arg), const void *arg,
	      struct mr **out)
{
	struct core *core = pd->core;
	struct mr *mr = calloc(1, sizeof(*mr));
	const struct mkey *mk;
	bool found;

	if (!mr)
		return -ENOMEM;
	turn_take(&core->turn);
	mk = mkey_find(&core->mkeys, handle);
	found = mk && !mk->is_mw && ok(container_of(mk, struct mr, mkey), arg);
	if (found)
		mr->ibv = container_of(mk, struct mr, mkey)->ibv;
	turn_give(&core->turn);
	if (!found) {
		free(mr);
		return -ENOENT;
	}
	mr->core = core;
	mr->imported = true;
	mr->mkey.key = mr->ibv.lkey;
	mr->mkey.pd = pd_proper(pd);
	pd_use(pd);
	mr->ibv.context = pd->ibv.context;
	mr->ibv.pd = &pd->ibv;
	mr->ibv.addr = NULL;
	live_add(&mr->live, LIVE_MR, mr->ibv.context);
	*out = mr;
	return 0;
}

void mr_unimport(struct mr *mr)
{
	live_del(&mr->live);
	pd_unuse(pd_of(mr->ibv.pd));
	free(mr);
}

static inline enum mr_why check_key(struct core *core, const struct mkey *mk,
				    const struct pd *pd, uint32_t qpn, uint64_t va,
				    uint64_t len, int access, uint8_t **host)
{
	const int remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH;

	if (!mk)
		return MR_NO_KEY;
	if (!mk->valid)
		return MR_INVALID;
	if (mk->pd != pd)
		return MR_PD;
	if (mk->qpn && mk->qpn != qpn)
		return MR_QP;
	/* A window's key is an rkey only. */
	if ((mk->access & access) != access || (mk->is_mw && !(access & remote)))
		return MR_ACCESS;
	if (mk->is_null) {
		*host = null_host(&core->null, access & IBV_ACCESS_LOCAL_WRITE);
		return len <= NULL_LENGTH ? MR_OK : MR_RANGE;
	}
	/* A va below base makes va - base wrap to more than any length. */
	if (len > mk->length || va - mk->base > mk->length - len)
		return MR_RANGE;
	/* Computed as a number, because an implicit region begins at NULL. */
	*host = (uint8_t *)((uintptr_t)mk->host + (uintptr_t)(va - mk->base));
	return MR_OK;
}

enum mr_why mr_check(struct core *core, uint32_t key, const struct pd *pd, uint32_t qpn,
		     uint64_t va, uint64_t len, int access, uint8_t **host)
{
	return check_key(core, mkey_find(&core->mkeys, key), pd, qpn, va, len, access,
			 host);
}

enum mr_why mr_check_whole(struct core *core, uint32_t key, const struct pd *pd,
			   uint32_t qpn, int access)
{
	const struct mkey *mk = mkey_find(&core->mkeys, key);
	uint8_t *host;

	return check_key(core, mk, pd, qpn, mk ? mk->base : 0, 0, access, &host);
}

enum mr_why mr_check_inside(struct core *core, struct mr_found *f, uint32_t key,
			    const struct pd *pd, uint64_t va, uint64_t len, int access,
			    uint8_t **host)
{
	uint32_t changes = mkeys_changes(&core->mkeys);
	const struct mkey *mk = mkey_find(&core->mkeys, key);
	enum mr_why why;

	if (mk && (mk->is_mw || atomic_load_explicit(&mk->moving, memory_order_acquire)))
		return MR_INVALID;
	why = check_key(core, mk, pd, 0, va, len, access, host);
	if (why == MR_OK && !mk->is_null)
		*f = (struct mr_found){ key,	  changes,    mk->access,
					mk->base, mk->length, mk->host };
	return why;
}

const char *mr_why_str(enum mr_why why)
{
	switch (why) {
	case MR_OK:
		return "allowed";
	case MR_NO_KEY:
		return "key unknown";
	case MR_INVALID:
		return "key invalidated or window not bound";
	case MR_PD:
		return "protection domain differs";
	case MR_ACCESS:
		return "access not granted";
	case MR_RANGE:
		return "range outside of the region";
	case MR_QP:
		return "window bound to another QP";
	}
	return "?";
}

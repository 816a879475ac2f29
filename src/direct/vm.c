/* SPDX-License-Identifier: BSD-2-Clause */
/* vm.c - another process's memory, by process_vm_readv() and process_vm_writev(). The
 * kernel allows these between processes of one user in one pid namespace, unless Yama
 * or seccomp forbid them. That is tried once, on a nonce that only the right process
 * can have. The peer's export table says what may be touched. What it does not allow
 * for certain is left to the peer to judge.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "direct/direct.h"
#include "direct/map.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/exports.h"
#include "verbs/qp.h"

enum { LAST = 64 /* bytes at the end that are written last */ };

/* --- whose it is --------------------------------------------------------- */

static const struct exports *map_exports(int fd)
{
	void *b;

	if (!fd_is_sealed(fd, sizeof(struct exports), F_SEAL_SHRINK | F_SEAL_GROW))
		return NULL;
	b = mmap(NULL, sizeof(struct exports), PROT_READ, MAP_SHARED, fd, 0);
	if (b == MAP_FAILED)
		return NULL;
	madvise(b, sizeof(struct exports), MADV_DONTFORK);
	return b;
}

/* Returns why the process is not the one its nonce says; NULL: it is. */
static const char *not_who_it_says(struct reach *r, const struct nonce *nonce)
{
	uint64_t got[2] = { 0, 0 };
	struct iovec here = { got, sizeof(got) };
	struct iovec there = { (void *)(uintptr_t)nonce->at, sizeof(got) };

	if (process_vm_readv(r->pid, &here, 1, &there, 1, 0) != sizeof(got)) {
		if (errno == EPERM)
			return "process_vm_readv is not permitted: Yama's ptrace_scope "
			       "(URNIC_LOCAL=vm at both ends opens it), seccomp, or the "
			       "process is not dumpable";
		return errno == ENOSYS ? "this kernel has no process_vm_readv"
				       : "process_vm_readv fails";
	}
	return memcmp(got, nonce->value, sizeof(got))
		       ? "its process id leads to another process"
		       : NULL;
}

/* The export table keeps its address, since threads inside read it. A peer that shows
 * another table is not a process of ours. */
static bool take_exports(struct reach *r, const struct exports *b)
{
	const struct exports *was;

	if (r->exports && b && !memcmp(&r->exports->life, &b->life, sizeof(b->life))) {
		munmap((void *)(uintptr_t)b, sizeof(*b));
		return true;
	}
	maps_close(r);
	was = r->exports;
	r->exports = b;
	if (r->lent)
		unseen_exports(&r->gate.unseen, b);
	if (was)
		munmap((void *)(uintptr_t)was, sizeof(*was));
	return b != NULL;
}

void reach_handshake(struct reach *r, const struct nonce *nonce, int exports_fd)
{
	r->why = not_who_it_says(r, nonce);
	if (!r->why) {
		r->nonce = *nonce;
		if (!take_exports(r, map_exports(exports_fd)))
			r->why = "it shows no export table";
	}
	r->vm = !r->why;
}

void reach_part(struct reach *r)
{
	maps_close(r);
	r->vm = false;
}

bool reach_prove(struct reach *r, uint64_t proof[2])
{
	uint64_t got[4];
	struct iovec here = { got, sizeof(got) };
	struct iovec there = { (void *)(uintptr_t)r->nonce.at, sizeof(got) };

	static_assert(offsetof(struct gate_page, proof) == sizeof(r->nonce.value),
		      "read at once");
	if (!r->vm ||
	    process_vm_readv(r->pid, &here, 1, &there, 1, 0) != (ssize_t)sizeof(got) ||
	    memcmp(got, r->nonce.value, sizeof(r->nonce.value)) != 0)
		return false;
	memcpy(proof, got + 2, sizeof(r->nonce.value));
	return true;
}

/* --- what it allows ------------------------------------------------------ */

/* What this process has read from the peer's export table. */
struct grant {
	uint64_t host;
	uint32_t qp_version, mr_version;
};

/* Does the destination QP take our QP's requests? */
static bool is_open(const struct by *by, struct exported_qp *to)
{
	return exports_get_qp(by->r->exports, by->qp->attr.dest_qp_num, to) && to->open &&
	       to->dest_qp == by->qp->qpn && to->path == by->path;
}

/* Judges the access as the peer would. */
static bool is_allowed(const struct by *by, const struct range *at, unsigned access,
		       struct grant *g)
{
	struct exported_qp to;
	struct exported_mr mr;

	if (!is_open(by, &to) || (to.access & access) != access)
		return false;
	/* More READs at once than the peer takes are an error. Where that is possible
	 * the peer must count them. */
	if (access == IBV_ACCESS_REMOTE_READ && to.reads < by->qp->attr.max_rd_atomic)
		return false;
	if (!exports_get_mr(by->r->exports, at->key, &mr) || mr.key != at->key ||
	    mr.pd != to.pd || (mr.access & access) != access || at->len > mr.length ||
	    at->va - mr.base > mr.length - at->len)
		return false;
	g->host = mr.host + (at->va - mr.base);
	g->qp_version = to.version;
	g->mr_version = mr.version;
	return true;
}

/* --- copies -------------------------------------------------------------- */

struct vecs {
	struct iovec here[SGE_MAX + 2], there[4];
	unsigned n, m;
};

/* Copies. The word is cleared before qp->lock is taken again, which may take long: no
 * control call should wait for us then. errno stays as the copy set it. */
static NO_TSA ssize_t move(const struct by *by, const struct vecs *v, bool write,
			   bool let_go)
{
	pid_t pid = by->r->pid;
	ssize_t did;

	if (let_go)
		lock_give(&by->qp->lock);
	did = write ? process_vm_writev(pid, v->here, v->n, v->there, v->m, 0)
		    : process_vm_readv(pid, v->here, v->n, v->there, v->m, 0);
	if (write)
		atomic_store_explicit(by->r->inside, 0, memory_order_release);
	if (let_go)
		lock_take(&by->qp->lock);
	return did;
}

static void add_there(struct vecs *v, uint64_t at, size_t len)
{
	v->there[v->m++] = (struct iovec){ (void *)(uintptr_t)at, len };
}

static bool moved(const struct by *by, const struct vecs *v, bool write, uint32_t len,
		  size_t all)
{
	ssize_t did = move(by, v, write, lets_go(by, len));
	struct reach *r = by->r;

	/* EFAULT without a byte: even the gate is inaccessible. */
	if (did < 0 &&
	    (errno == EPERM || errno == ESRCH || errno == ENOSYS || errno == EFAULT)) {
		r->vm = false; /* was possible until now */
		r->shut_out = errno == EFAULT;
		log_info("slot %u, process %d: WRITE and READ of its memory no "
			 "longer go directly: %s",
			 r->slot, (int)r->pid, strerror(errno));
	}
	return did == (ssize_t)all;
}

/* Writes len bytes at off of span to `there`, between two counts into the gate page;
 * see gate.c. False: not all. */
static bool put_bytes(const struct by *by, const struct span *span, uint32_t off,
		      uint32_t len, uint64_t there)
{
	uint64_t gate = by->r->nonce.at, count = by->r->writes;
	uint32_t last = len > LAST ? LAST : 0; /* programs poll on the last byte */
	struct vecs v;

	v.here[0] = (struct iovec){ &count, sizeof(count) };
	v.n = 1 + span_iov(span, off, len, v.here + 1);
	v.here[v.n++] = v.here[0];
	v.m = 0;
	add_there(&v, gate + offsetof(struct gate_page, counts.begun), sizeof(count));
	add_there(&v, there, len - last);
	if (last)
		add_there(&v, there + len - last, last);
	add_there(&v, gate + offsetof(struct gate_page, counts.ended), sizeof(count));
	return moved(by, &v, true, len, len + 2 * sizeof(count));
}

/* Reads len bytes at off of span from `there`, after the gate page's nonce. False: not
 * all. */
static bool get_bytes(const struct by *by, const struct span *span, uint32_t off,
		      uint32_t len, uint64_t there)
{
	uint64_t value = 0;
	struct vecs v;

	v.here[0] = (struct iovec){ &value, sizeof(value) };
	v.n = 1 + span_iov(span, off, len, v.here + 1);
	v.m = 0;
	add_there(&v, by->r->nonce.at, sizeof(value));
	add_there(&v, there, len);
	return moved(by, &v, false, len, len + sizeof(value)) &&
	       value == by->r->nonce.value[0];
}

static bool is_inside(const struct range *r, uint32_t off, uint32_t len)
{
	return off <= r->len && len <= r->len - off;
}

/* The peer waits for processes that may still write. */
bool reach_write(const struct by *by, const struct range *to, const struct span *span,
		 uint32_t off, uint32_t len)
{
	struct reach *r = by->r;
	struct grant g;
	bool done;

	if (!is_inside(to, off, len))
		return false;
	if (reach_mapped(by, to, span, off, len, IBV_ACCESS_REMOTE_WRITE))
		return true;
	r->writes++;
	atomic_store(r->inside,
		     (uint64_t)to->key << INSIDE_KEY_AT |
			     (uint64_t)by->qp->attr.dest_qp_num << INSIDE_QPN_AT |
			     (r->writes & INSIDE_COUNT));
	atomic_thread_fence(memory_order_seq_cst);
	/* The kernel copies one piece after the other, and puts the pages of the last
	 * one back by full barriers in between: so the last byte is seen last. */
	done = is_allowed(by, to, IBV_ACCESS_REMOTE_WRITE, &g) &&
	       put_bytes(by, span, off, len, g.host + off);
	atomic_store_explicit(r->inside, 0, memory_order_release);
	return done;
}

/* The peer does not wait for readers: what was read counts only if the export table is
 * unchanged afterwards. */
bool reach_read(const struct by *by, const struct range *from, const struct span *span,
		uint32_t off, uint32_t len)
{
	const unsigned access = IBV_ACCESS_REMOTE_READ;
	struct grant g, after;

	if (!is_inside(from, off, len))
		return false;
	if (reach_mapped(by, from, span, off, len, access))
		return true;
	return is_allowed(by, from, access, &g) &&
	       get_bytes(by, span, off, len, g.host + off) &&
	       is_allowed(by, from, access, &after) && after.qp_version == g.qp_version &&
	       after.mr_version == g.mr_version;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* vm.c - the peer's memory, by process_vm_readv() and process_vm_writev().
 *
 * The kernel allows that between processes of one user in one pid namespace,
 * unless Yama or seccomp forbid it; whether it does is tried once, on a nonce
 * that only the right process can have.  What may be touched is on the peer's
 * board.  Whatever is not certain goes by a record, and the peer judges.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/board.h"
#include "core/mr.h"
#include "host/host.h"
#include "local/local_qp.h"
#include "sys/log.h"

enum {
	LAST = 64, /* bytes that are written last */
};

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

/* --- the board ----------------------------------------------------------- */

void vm_open(struct local *l)
{
	struct board *b;
	int fd;

	if (l->way == LOCAL_PIPE)
		return;
	fd = fd_memory("urnic-board", sizeof(*b));
	if (fd < 0)
		return;
	b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (b == MAP_FAILED)
		goto fail;
	if (fcntl(fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)) {
		munmap(b, sizeof(*b));
		goto fail;
	}
	madvise(b, sizeof(*b), MADV_DONTFORK);
	if (l->way == LOCAL_VM)
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	l->board_fd = fd;
	l->core->board = b;
	l->core->board_wait = gate_wait_key;
	return;
fail:
	close(fd);
}

void vm_close(struct local *l)
{
	if (l->core->board)
		munmap(l->core->board, sizeof(*l->core->board));
	l->core->board = NULL;
	if (l->board_fd >= 0)
		close(l->board_fd);
	l->board_fd = -1;
}

void vm_publish(struct local_qp *q)
{
	const struct qp *qp = q->qp;
	bool open = q->peer && (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
				qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE);

	board_put_qp(qp->core, qp->qpn,
		     &(struct board_qp){
			     .open = open,
			     .pd = qp->pd->ibv.handle,
			     .access = qp->attr.qp_access_flags,
			     .dest_qp = qp->attr.dest_qp_num,
			     .path = q->path_in,
			     .reads = qp->attr.max_dest_rd_atomic,
			     .executed = q->rsp.epsn,
		     });
}

/* --- peers --------------------------------------------------------------- */

static const struct board *map_board(int fd)
{
	void *b;

	if (!fd_is_sealed(fd, sizeof(struct board), F_SEAL_SHRINK | F_SEAL_GROW))
		return NULL;
	b = mmap(NULL, sizeof(struct board), PROT_READ, MAP_SHARED, fd, 0);
	if (b == MAP_FAILED)
		return NULL;
	madvise(b, sizeof(struct board), MADV_DONTFORK);
	return b;
}

/* NULL: it is. */
static const char *not_who_it_says(struct peer *p, const struct nonce *nonce)
{
	uint64_t got[2] = { 0, 0 };
	struct iovec here = { got, sizeof(got) };
	struct iovec there = { (void *)(uintptr_t)nonce->at, sizeof(got) };

	if (process_vm_readv(p->pid, &here, 1, &there, 1, 0) != sizeof(got)) {
		if (errno == EPERM)
			return "process_vm_readv is not permitted: Yama's "
			       "ptrace_scope (URNIC_LOCAL=vm at both ends opens it), "
			       "seccomp, or it may not be dumped";
		return errno == ENOSYS ? "process_vm_readv does not exist here"
				       : "process_vm_readv fails";
	}
	return memcmp(got, nonce->value, sizeof(got)) ? "its memory is another's" : NULL;
}

static const char *cannot(struct peer *p, const struct nonce *nonce, int board_fd)
{
	const char *why;
	uid_t uid;

	if (p->l->way == LOCAL_PIPE)
		return "URNIC_LOCAL is pipe";
	if (p->l->board_fd < 0 || host_cred(p->l->host, p->slot, &uid, &p->pid))
		return "there is no memory for that";
	if (!host_is_ours(p->l->host, p->slot))
		return "it is another user's";
	if (p->pid <= 0)
		return "it is in another pid namespace";
	if (!nonce->at)
		return "it does not allow that";
	why = not_who_it_says(p, nonce);
	if (why)
		return why;
	p->nonce = *nonce;
	p->board = map_board(board_fd);
	return p->board ? NULL : "it does not say what may be reached";
}

void vm_meet(struct peer *p, const struct nonce *nonce, int board_fd)
{
	p->vm_why = cannot(p, nonce, board_fd);
	p->vm = !p->vm_why;
}

void vm_part(struct peer *p)
{
	if (p->board)
		munmap((void *)(uintptr_t)p->board, sizeof(*p->board));
	p->board = NULL;
	p->vm = false;
}

/* --- work ---------------------------------------------------------------- */

/* What was read on the board. */
struct grant {
	uint64_t host;
	uint32_t qp_version, mr_version;
};

/* Does the QP that q's requests are for take them? */
static bool is_open(const struct local_qp *q, struct board_qp *to)
{
	return board_get_qp(q->peer->board, q->qp->attr.dest_qp_num, to) && to->open &&
	       to->dest_qp == q->qp->qpn && to->path == q->path_out;
}

bool vm_executed(const struct local_qp *q, uint32_t psn)
{
	struct board_qp to;

	return q->peer->vm && is_open(q, &to) &&
	       board_get_executed(q->peer->board, q->qp->attr.dest_qp_num) == psn;
}

/* May q's work reach [va, va + len) behind key?  As the peer itself would judge. */
static bool is_allowed(const struct local_qp *q, const struct swqe *w, int access,
		       struct grant *g)
{
	const struct board *b = q->peer->board;
	struct board_qp to;
	struct board_mr mr;

	if (!is_open(q, &to) || !(to.access & (unsigned)access))
		return false;
	/* Too many READs at once are an error: where that may be, the peer counts. */
	if (access == IBV_ACCESS_REMOTE_READ && to.reads < q->qp->attr.max_rd_atomic)
		return false;
	if (!board_get_mr(b, w->rkey, &mr) || mr.key != w->rkey || mr.pd != to.pd ||
	    !(mr.access & (unsigned)access) || w->length > mr.length ||
	    w->remote_addr - mr.base > mr.length - w->length)
		return false;
	g->host = mr.host + (w->remote_addr - mr.base);
	g->qp_version = to.version;
	g->mr_version = mr.version;
	return true;
}

struct vecs {
	struct iovec here[SGE_MAX + 2], there[4];
	unsigned n, m;
};

/* A long copy does not keep the program from posting: under the turn nothing of
 * the QP changes but that requests are added.  The lock may then be long in
 * coming, so nobody is to think that we are still inside.  At exit() it may never
 * come.  errno stays what the copy made it. */
static NO_TSA ssize_t move(struct local_qp *q, const struct vecs *v, bool write,
			   bool is_long)
{
	bool let_go = is_long && !q->l->core->leaving;
	pid_t pid = q->peer->pid;
	ssize_t did;

	if (let_go)
		lock_give(&q->qp->lock);
	did = write ? process_vm_writev(pid, v->here, v->n, v->there, v->m, 0)
		    : process_vm_readv(pid, v->here, v->n, v->there, v->m, 0);
	if (write)
		atomic_store_explicit(q->peer->inside, 0, memory_order_release);
	if (let_go)
		lock_take(&q->qp->lock);
	return did;
}

static void add_there(struct vecs *v, uint64_t at, size_t len)
{
	v->there[v->m++] = (struct iovec){ (void *)(uintptr_t)at, len };
}

static bool moved(struct local_qp *q, const struct vecs *v, bool write, uint32_t len,
		  size_t all)
{
	struct peer *p = q->peer;
	ssize_t did = move(q, v, write, len > RING_CHUNK);

	/* EFAULT: not even the gate is there. */
	if (did < 0 &&
	    (errno == EPERM || errno == ESRCH || errno == ENOSYS || errno == EFAULT)) {
		p->vm = false; /* it was possible; no more */
		p->shut_out = errno == EFAULT;
		log_info("slot %u, process %d: WRITE and READ of its memory go "
			 "directly no more: errno %d",
			 p->slot, (int)p->pid, errno);
	}
	return did == (ssize_t)all;
}

/* len bytes at off of span go there.  The gate is passed first and last; see gate.c.
 * False: not all. */
static bool put(struct local_qp *q, const struct span *span, uint32_t off, uint32_t len,
		uint64_t there)
{
	uint64_t gate = q->peer->nonce.at, count = q->peer->writes;
	uint32_t last = len > LAST ? LAST : 0; /* programs poll on the last byte */
	struct vecs v;

	v.here[0] = (struct iovec){ &count, sizeof(count) };
	v.n = 1 + span_iov(span, off, len, v.here + 1);
	v.here[v.n++] = v.here[0];
	v.m = 0;
	add_there(&v, gate + offsetof(struct gate_page, begun), sizeof(count));
	add_there(&v, there, len - last);
	if (last)
		add_there(&v, there + len - last, last);
	add_there(&v, gate + offsetof(struct gate_page, ended), sizeof(count));
	return moved(q, &v, true, len, len + 2 * sizeof(count));
}

/* ... come from there. */
static bool get(struct local_qp *q, const struct span *span, uint32_t off, uint32_t len,
		uint64_t there)
{
	uint64_t value = 0;
	struct vecs v;

	v.here[0] = (struct iovec){ &value, sizeof(value) };
	v.n = 1 + span_iov(span, off, len, v.here + 1);
	v.m = 0;
	add_there(&v, q->peer->nonce.at, sizeof(value));
	add_there(&v, there, len);
	return moved(q, &v, false, len, len + sizeof(value)) &&
	       value == q->peer->nonce.value[0];
}

/* The peer waits for who may still write. */
static bool write_some(struct local_qp *q, const struct swqe *w, const struct span *span,
		       uint32_t len)
{
	uint32_t off = q->req.direct;
	struct peer *p = q->peer;
	struct grant g;
	bool done;

	p->writes++;
	atomic_store(p->inside,
		     (uint64_t)w->rkey << INSIDE_KEY_AT |
			     (uint64_t)q->qp->attr.dest_qp_num << INSIDE_QPN_AT |
			     (p->writes & INSIDE_COUNT));
	atomic_thread_fence(memory_order_seq_cst);
	done = is_allowed(q, w, IBV_ACCESS_REMOTE_WRITE, &g) &&
	       put(q, span, off, len, g.host + off);
	atomic_store_explicit(p->inside, 0, memory_order_release);
	return done;
}

/* The peer does not wait: what was read counts if nothing has changed meanwhile. */
static bool read_some(struct local_qp *q, const struct swqe *w, const struct span *span,
		      uint32_t len)
{
	uint32_t off = q->req.direct;
	struct grant g, after;

	return is_allowed(q, w, IBV_ACCESS_REMOTE_READ, &g) &&
	       get(q, span, off, len, g.host + off) &&
	       is_allowed(q, w, IBV_ACCESS_REMOTE_READ, &after) &&
	       after.qp_version == g.qp_version && after.mr_version == g.mr_version;
}

bool vm_may(struct local_qp *q, const struct swqe *w)
{
	bool read = w->opcode == IBV_WR_RDMA_READ;
	struct grant g;

	return q->peer->vm && w->length &&
	       is_allowed(q, w, read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE,
			  &g);
}

enum vm_did vm_work(struct local_qp *q, struct swqe *w, const struct span *span,
		    uint32_t *left)
{
	struct local_req *r = &q->req;
	uint32_t len = w->length - r->direct;

	if (!q->peer->vm || len == 0)
		return VM_NO;
	if (len > *left)
		len = *left;
	if (!(w->opcode == IBV_WR_RDMA_READ ? read_some(q, w, span, len)
					    : write_some(q, w, span, len))) {
		r->direct = 0;
		return VM_NO;
	}
	r->direct += len;
	q->l->count.direct++;
	q->l->count.direct_bytes += len;
	*left -= len;
	q->l->core->spent += len / 4096 + 1;
	if (r->direct < w->length)
		return VM_MORE;
	r->direct = 0;
	return VM_DONE;
}

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
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "core/board.h"
#include "core/mr.h"
#include "host/host.h"
#include "local/local_qp.h"
#include "sys/fd.h"
#include "sys/log.h"

enum {
	LAST = 64,			/* bytes that are written last */
	TOKEN = 8,			/* bytes of the nonce's page, touched first */
	PAGE = 4096, ALIGN = 1 << 16,	/* some machines' pages are larger */
	CHECK_NS = 1000000,		/* so often: does it live? */
	SLOW_NS = 1000000000,
};

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010	/* Linux 5.1 */
#endif

/* --- the board ----------------------------------------------------------------- */

/* It may know that the pipe is used before we do. */
static bool may_be_inside(const struct peer *p)
{
	return (p->state == PEER_UP || p->state == PEER_OPENING) && p->pipe &&
	       p->theirs && p->told;
}

/* Has anyone been inside ever since?  first: since now. */
static bool stays_inside(struct local *l, bool first)
{
	bool any = false;

	list_for(n, &l->peers) {
		struct peer *p = container_of(n, struct peer, node);
		uint32_t key = may_be_inside(p) ? atomic_load(p->theirs) : 0;

		p->was_inside = first || key == p->was_inside ? key : 0;
		any |= p->was_inside != 0;
	}
	return any;
}

/* A copy that began while a QP was open on the board has ended: without the
 * turn.  (Two that wait at once may wait for each other's, too.) */
void local_fence(struct core *core)
{
	bool any = core->board != NULL;

	for (bool first = true; any; first = false) {
		turn_take(&core->turn);
		any = core->local && stays_inside(core->local, first);
		turn_give(&core->turn);
		if (any)
			nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
	}
}

static bool is_inside(struct local *l, uint32_t key)
{
	list_for(n, &l->peers) {
		const struct peer *p = container_of(n, struct peer, node);

		if (may_be_inside(p) && atomic_load(p->theirs) == key)
			return true;
	}
	return false;
}

static void wait_until_out(struct core *core, uint32_t key)
{
	uint64_t start = clock_ns();
	bool inside, said = false;

	for (;;) {
		turn_take(&core->turn);
		inside = core->local && is_inside(core->local, key);
		turn_give(&core->turn);
		if (!inside)
			return;
		if (!said && clock_ns() - start > SLOW_NS) {
			said = true;
			log_warn("key 0x%08x: another process is copying from or "
				 "to the region: deregistration waits for it", key);
		}
		nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
	}
}

/* A page where no other program has one.  Whoever writes here writes to it first,
 * in the same system call: so what this process becomes by exec, or who gets its
 * number, is not written to.  NULL: none. */
static void *lonely_page(void)
{
	enum { TRIES = 48, MOST_BITS = 46, TRIES_PER_BIT = 4 };
	void *at = MAP_FAILED;
	uint64_t where;

	/* How large an address may be is not known. */
	for (unsigned i = 0; i < TRIES; i++) {
		if (getrandom(&where, sizeof(where), GRND_NONBLOCK) != sizeof(where))
			return NULL;
		where >>= 64 - MOST_BITS + i / TRIES_PER_BIT;
		where -= where % ALIGN;
		/* A hint, which is followed where nothing is in the way.  (Not
		 * MAP_FIXED_NOREPLACE: ThreadSanitizer makes NULL of it.) */
		at = mmap((void *)(uintptr_t)where, PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at == (void *)(uintptr_t)where)
			break;
		if (at != MAP_FAILED)
			munmap(at, PAGE);
		at = MAP_FAILED;
	}
	/* A sanitizer wants it elsewhere. */
	if (at == MAP_FAILED)
		at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, PAGE, MADV_DONTFORK);
	return at;
}

static bool nonce_open(struct nonce *n)
{
	void *page;

	if (getrandom(n->value, sizeof(n->value), GRND_NONBLOCK) != sizeof(n->value))
		return false;
	page = lonely_page();
	if (!page)
		return false;
	memcpy(page, n->value, sizeof(n->value));
	n->at = (uintptr_t)page;
	return true;
}

void vm_open(struct local *l)
{
	struct board *b;
	int fd;

	if (l->way == LOCAL_PIPE || !nonce_open(&l->nonce))
		return;
	fd = fd_memory("urnic-board", sizeof(*b));
	if (fd < 0)
		return;
	b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (b == MAP_FAILED)
		goto fail;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW |
		  F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)) {
		munmap(b, sizeof(*b));
		goto fail;
	}
	madvise(b, sizeof(*b), MADV_DONTFORK);
	if (l->way == LOCAL_VM)
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	l->board_fd = fd;
	l->core->board = b;
	l->core->board_wait = wait_until_out;
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
	if (l->nonce.at)
		munmap((void *)(uintptr_t)l->nonce.at, PAGE);
	l->nonce.at = 0;
}

void vm_publish(struct local_qp *q)
{
	const struct qp *qp = q->qp;
	bool open = q->peer && (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
				qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE);

	board_put_qp(qp->core, qp->qpn, &(struct board_qp){
		.open = open, .pd = qp->pd->ibv.handle,
		.access = qp->attr.qp_access_flags,
		.dest_qp = qp->attr.dest_qp_num, .path = q->path_in,
		.reads = qp->attr.max_dest_rd_atomic,
	});
}

/* --- peers --------------------------------------------------------------------- */

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

	p->pidfd = fd_raise((int)syscall(SYS_pidfd_open, p->pid, 0));
	if (process_vm_readv(p->pid, &here, 1, &there, 1, 0) != sizeof(got)) {
		if (errno == EPERM)
			return "process_vm_readv is not permitted: Yama's "
			       "ptrace_scope (URNIC_LOCAL=vm at both ends opens it), "
			       "seccomp, or it may not be dumped";
		return errno == ENOSYS ? "process_vm_readv does not exist here" :
					 "process_vm_readv fails";
	}
	return memcmp(got, nonce->value, sizeof(got)) ? "its memory is another's" :
							NULL;
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
	if (p->pidfd >= 0)
		close(p->pidfd);
	p->pidfd = -1;
}

/* Nobody else gets its number while this is asked that often. */
static bool lives(struct peer *p, uint64_t now)
{
	struct pollfd fd = { .fd = p->pidfd, .events = POLLIN };

	if (p->pidfd < 0 || now - p->checked < CHECK_NS)
		return true;
	p->checked = now;
	return poll(&fd, 1, 0) == 0;
}

/* --- work ------------------------------------------------------------------------ */

/* May q's work reach [va, va + len) behind key?  As the peer itself would judge. */
static bool is_allowed(const struct local_qp *q, const struct swqe *w, int access,
		       uint64_t *host)
{
	const struct board *b = q->peer->board;
	struct board_qp to;
	struct board_mr mr;

	if (!board_get_qp(b, q->qp->attr.dest_qp_num, &to) || !to.open ||
	    to.dest_qp != q->qp->qpn || to.path != q->path_out ||
	    !(to.access & (unsigned)access))
		return false;
	/* Too many READs at once are an error: where that may be, the peer counts. */
	if (access == IBV_ACCESS_REMOTE_READ && to.reads < q->qp->attr.max_rd_atomic)
		return false;
	if (!board_get_mr(b, w->rkey, &mr) || mr.key != w->rkey || mr.pd != to.pd ||
	    !(mr.access & (unsigned)access) || w->length > mr.length ||
	    w->remote_addr - mr.base > mr.length - w->length)
		return false;
	*host = mr.host + (w->remote_addr - mr.base);
	return true;
}

/* First of all 8 bytes of the page that the right process alone has: a READ's are
 * the nonce's, a WRITE's lie behind it, in a cache line of this process's own. */
static struct iovec token_of(const struct peer *p, bool write)
{
	uint64_t at = p->nonce.at;

	if (write)
		at += SLOT * (1u + p->l->core->slot % (PAGE / SLOT - 1));
	return (struct iovec){ (void *)(uintptr_t)at, TOKEN };
}

struct vecs { struct iovec here[SGE_MAX + 1], there[3]; unsigned n, m; };

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
	did = write ? process_vm_writev(pid, v->here, v->n, v->there, v->m, 0) :
		      process_vm_readv(pid, v->here, v->n, v->there, v->m, 0);
	atomic_store_explicit(q->peer->inside, 0, memory_order_release);
	if (let_go)
		lock_take(&q->qp->lock);
	return did;
}

/* len bytes at off of span, from or to there.  False: not all. */
static bool copy(struct local_qp *q, const struct span *span, uint32_t off,
		 uint32_t len, uint64_t there, bool write)
{
	struct peer *p = q->peer;
	uint64_t token = 0;
	struct vecs v;
	ssize_t did;

	v.here[0] = (struct iovec){ &token, TOKEN };
	v.n = 1 + span_iov(span, off, len, v.here + 1);
	v.there[0] = token_of(p, write);
	v.there[1] = (struct iovec){ (void *)(uintptr_t)there, len };
	v.m = 2;
	if (write && len > LAST) {		/* programs poll on the last byte */
		v.there[1].iov_len = len - LAST;
		v.there[2] = (struct iovec){
			(char *)v.there[1].iov_base + len - LAST, LAST };
		v.m = 3;
	}
	did = move(q, &v, write, len > RING_CHUNK);
	if (did < 0 && (errno == EPERM || errno == ESRCH || errno == ENOSYS))
		p->vm = false;			/* it was possible; no more */
	return did == (ssize_t)len + TOKEN && (write || token == p->nonce.value[0]);
}

static int access_of(const struct swqe *w)
{
	return w->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ :
					       IBV_ACCESS_REMOTE_WRITE;
}

bool vm_may(struct local_qp *q, const struct swqe *w)
{
	uint64_t there;

	return q->peer->vm && w->length && is_allowed(q, w, access_of(w), &there);
}

enum vm_did vm_work(struct local_qp *q, struct swqe *w, const struct span *span,
		    uint32_t *left, uint64_t now)
{
	bool write = w->opcode != IBV_WR_RDMA_READ, done;
	struct local_req *r = &q->req;
	struct peer *p = q->peer;
	uint32_t len = w->length - r->direct;
	uint64_t there;

	if (!p->vm || len == 0 || !lives(p, now))
		return VM_NO;
	if (len > *left)
		len = *left;
	atomic_store(p->inside, w->rkey);
	atomic_thread_fence(memory_order_seq_cst);
	done = is_allowed(q, w, access_of(w), &there) &&
	       copy(q, span, r->direct, len, there + r->direct, write);
	atomic_store_explicit(p->inside, 0, memory_order_release);
	if (!done) {
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

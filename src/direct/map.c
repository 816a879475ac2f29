/* SPDX-License-Identifier: BSD-2-Clause */
/* map.c - see map.h. Threads look at the table without a lock while they are inside
 * (words.h), so a mapping that was removed from it is unmapped only when all threads
 * that were inside have left. */
#include "direct/map.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "direct/words.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/exports.h"

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif
#ifndef HUGETLBFS_MAGIC
#define HUGETLBFS_MAGIC 0x958458f6
#endif

enum {
	MAP_AFTER = 16, /* uses; twice as many for each mapping that was refused, */
	REFUSALS_MOST = 6,
};

static void discard(struct mapping *m)
{
	munmap(m->start, m->size);
	free(m);
}

static void discard_all(struct list *l)
{
	list_for_safe(n, l)
	{
		list_del(n);
		discard(container_of(n, struct mapping, node));
	}
}

/* Unmaps removed mappings when no thread can use them any more. The turn is held, so a
 * thread that does not leave is waited for once; after that the mappings stay until a
 * later call finds it has left. */
static void discard_left(struct direct *d, bool waited)
{
	uint32_t key;

	if (words_pass(d->core, waited ? 0 : d->patience_ns, &key) == 0)
		discard_all(&d->left);
	else if (!waited)
		log_warn("a thread of this process hangs in a copy to or from "
			 "another process's region of key 0x%08x: that memory stays "
			 "mapped until the thread goes on",
			 key);
}

void maps_fini(struct direct *d)
{
	discard_all(&d->left);
}

void maps_changed(struct reach *r)
{
	static _Atomic uint64_t last;

	atomic_store(&r->maps_serial, atomic_fetch_add(&last, 1) + 1);
}

/* Replaces the mapping in place i by another, or by none. */
static void replace_mapping(struct reach *r, unsigned i, struct mapping *by)
{
	struct mapping *was = atomic_exchange(&r->map[i], by);
	bool waited = !list_empty(&r->d->left);

	if (!was)
		return;
	maps_changed(r);
	list_add_tail(&r->d->left, &was->node);
	discard_left(r->d, waited);
}

void maps_close(struct reach *r)
{
	bool any = false, waited = !list_empty(&r->d->left);

	for (unsigned i = 0; i < MAPS; i++) {
		struct mapping *was = atomic_exchange(&r->map[i], NULL);

		if (was)
			list_add_tail(&r->d->left, &was->node);
		any |= was != NULL;
		r->use[i] = (struct use){ 0 };
	}
	maps_changed(r);
	if (any)
		discard_left(r->d, waited);
}

/* Frees the table only: the mappings were not inherited. */
void maps_forked(struct reach *r)
{
	maps_changed(r);
	for (unsigned i = 0; i < MAPS; i++)
		free(atomic_exchange(&r->map[i], NULL));
}

void maps_left_forked(struct direct *d)
{
	list_for_safe(n, &d->left)
	{
		list_del(n);
		free(container_of(n, struct mapping, node));
	}
}

static bool is_current(const struct mapping *m)
{
	return atomic_load(m->version) == m->lent.version;
}

/* Looks at one place after the other: a mapping whose region has ended keeps memory that
 * the peer may not be able to free. */
static void drop_stale(struct reach *r)
{
	unsigned i = r->looked++ % MAPS;
	const struct mapping *m = atomic_load_explicit(&r->map[i], memory_order_relaxed);

	if (!m || is_current(m))
		return;
	replace_mapping(r, i, NULL);
	r->use[i] = (struct use){ 0 };
}

bool reach_used(struct reach *r, uint32_t key)
{
	unsigned i = map_place(key);
	struct mapping *m;
	struct use *u;

	if (!r->exports)
		return false;
	drop_stale(r);
	u = &r->use[i];
	m = atomic_load_explicit(&r->map[i], memory_order_relaxed);
	if (m && (atomic_load(&m->bad) || !is_current(m))) {
		bool bad = atomic_load(&m->bad);

		replace_mapping(r, i, NULL);
		*u = (struct use){ .key = bad ? key : 0, .asked = bad, .refused = bad };
	}
	if (u->key != key)
		*u = (struct use){ .key = key };
	if (u->asked || ++u->times < (unsigned)MAP_AFTER << r->refusals)
		return false;
	u->asked = true;
	return true;
}

void reach_is_refused(struct reach *r, uint32_t key)
{
	struct use *u = &r->use[map_place(key)];

	if (u->key == key && u->asked)
		u->refused = true;
	if (r->refusals < REFUSALS_MOST)
		r->refusals++;
}

/* May the file be mapped? Its pages must be present, or be made by the kernel alone.
 * *unit: the alignment of offsets. */
static bool is_file(int fd, uint64_t end, uint64_t *unit)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < 0 ||
	    (uint64_t)st.st_size < end || fstatfs(fd, &fs) ||
	    fs.f_type == FUSE_SUPER_MAGIC)
		return false;
	*unit = fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize
					     : (uint64_t)sysconf(_SC_PAGESIZE);
	return *unit && !(*unit & (*unit - 1));
}

static bool map_file(struct mapping *m, int fd)
{
	const unsigned write = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	int prot = PROT_READ | (m->access & write ? PROT_WRITE : 0);
	const struct lent *l = &m->lent;
	uint64_t unit, from, to, len = l->hi - l->lo;

	if (l->hi <= l->lo || len > SIZE_MAX / 4 || l->offset > SIZE_MAX / 4 ||
	    !is_file(fd, l->offset + len, &unit))
		return false;
	from = l->offset & ~(unit - 1);
	to = (l->offset + len + unit - 1) & ~(unit - 1);
	m->size = to - from;
	m->start = mmap(NULL, m->size, prot, MAP_SHARED, fd, (off_t)from);
	if (m->start == MAP_FAILED)
		return false;
	madvise(m->start, m->size, MADV_DONTFORK);
	m->at = (uint8_t *)m->start + (l->offset - from);
	return true;
}

/* Limits m to the part that lies both in the region and in what was lent; the peer
 * states both. */
static void limit(struct mapping *m, const struct exported_mr *mr)
{
	uint64_t len = m->lent.hi - m->lent.lo, skip;

	m->va = mr->base;
	m->length = mr->length;
	if (m->lent.lo >= mr->host) {
		skip = m->lent.lo - mr->host;
		m->va += skip;
		m->length -= skip < m->length ? skip : m->length;
	} else {
		skip = mr->host - m->lent.lo;
		skip = skip < len ? skip : len;
		m->at += skip;
		len -= skip;
	}
	m->length = m->length < len ? m->length : len;
}

static struct mapping *make_mapping(struct reach *r, const struct lent *l, int fd)
{
	uint32_t torn = atomic_load(&r->exports->torn);
	struct mapping *m;
	struct exported_mr mr;

	if (!exports_get_mr(r->exports, l->key, &mr) || mr.key != l->key ||
	    mr.version != l->version || !(m = malloc(sizeof(*m))))
		return NULL;
	*m = (struct mapping){ .lent = *l,
			       .version = exports_mr_version(r->exports, l->key),
			       .torn = torn,
			       .pd = mr.pd,
			       .access = mr.access };
	if (map_file(m, fd)) {
		limit(m, &mr);
		return m;
	}
	free(m);
	return NULL;
}

bool reach_map(struct reach *r, const struct lent *l, int fd)
{
	unsigned i = map_place(l->key);
	struct mapping *m;

	if (!r->vm || !r->use[i].asked || r->use[i].key != l->key)
		return false;
	if (!r->registered)
		r->registered = words_register();
	m = r->registered ? make_mapping(r, l, fd) : NULL;
	if (!m)
		return false;
	replace_mapping(r, i, m);
	return true;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* tally.c - see tally.h. */
#include "driver/tally.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ib/ib.h"
#include "sys/fd.h"

enum { DEVICES = 15, SEEN = 1024 };

static const char name[] = "urnic-counters", link_to[] = "/memfd:urnic-counters";
static const char magic[] = "urnic counters 1";

struct page {
	char magic[16];
	uint64_t netns; /* number of the network namespace */
	struct ib_counts row[DEVICES];
};

struct tally {
	struct page *page;
	int fd;
	struct fd_id id;
};

static uint64_t netns(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) ? 0 : st.st_ino;
}

struct tally *tally_open(struct core *core)
{
	struct tally *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->fd = fd_memory(name, sizeof(*t->page));
	if (t->fd < 0 || fd_identify(t->fd, &t->id)) {
		free(t);
		return NULL;
	}
	t->page = mmap(NULL, sizeof(*t->page), PROT_READ | PROT_WRITE, MAP_SHARED, t->fd,
		       0);
	if (t->page == MAP_FAILED) {
		close(t->fd);
		free(t);
		return NULL;
	}
	memcpy(t->page->magic, magic, sizeof(t->page->magic));
	t->page->netns = netns();
	ib_count_by_device(core, t->page->row, DEVICES);
	return t;
}

void tally_close(struct tally *t)
{
	if (!t)
		return;
	munmap(t->page, sizeof(*t->page));
	if (fd_is(t->fd, &t->id))
		close(t->fd);
	free(t);
}

/* --- reading ----------------------------------------------------------------- */

/* A sum in progress. A forked child has its parent's descriptor, too: each file counts
 * once. */
struct summing {
	struct tally_sum *of;
	unsigned n; /* of them */
	uint64_t netns;
	unsigned files;
	ino_t seen[SEEN];
};

static bool is_new(struct summing *s, ino_t file)
{
	for (unsigned i = 0; i < s->files; i++)
		if (s->seen[i] == file)
			return false;
	if (s->files == SEEN)
		return false;
	s->seen[s->files++] = file;
	return true;
}

static void add_row(struct summing *s, const struct ib_counts *row)
{
	for (unsigned i = 0; i < s->n; i++) {
		if (strncmp(row->device, s->of[i].device, sizeof(row->device)) != 0)
			continue;
		for (unsigned c = 0; c < IB_COUNTERS; c++)
			s->of[i].sum[c] += row->n[c];
	}
}

/* Adds the counters of a file, whose content may be anything. */
static void add_counts(struct summing *s, int fd)
{
	struct page page;
	struct stat st;

	if (fstat(fd, &st) || st.st_size != sizeof(page) || !is_new(s, st.st_ino) ||
	    pread(fd, &page, sizeof(page), 0) != sizeof(page) ||
	    memcmp(page.magic, magic, sizeof(page.magic)) != 0 || page.netns != s->netns)
		return;
	for (unsigned i = 0; i < DEVICES; i++)
		add_row(s, &page.row[i]);
}

static void look_at_process(struct summing *s, const char *pid)
{
	char path[300], to[64];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, to, sizeof(to));
		int fd;

		if (n < (ssize_t)sizeof(link_to) - 1 ||
		    memcmp(to, link_to, sizeof(link_to) - 1) != 0)
			continue;
		fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC);
		if (fd >= 0) {
			add_counts(s, fd);
			close(fd);
		}
	}
	if (dir)
		closedir(dir);
}

void tally_add_up(struct tally_sum *of, unsigned n)
{
	struct summing s = { .of = of, .n = n, .netns = netns() };
	DIR *proc = n ? opendir("/proc") : NULL;
	struct dirent *e;

	while (proc && (e = readdir(proc)))
		if (isdigit((unsigned char)*e->d_name))
			look_at_process(&s, e->d_name);
	if (proc)
		closedir(proc);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* symbol.c - see symbol.h. */
#include "check/symbol.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
	const uint8_t *at;
	size_t size;
};

static bool map_file(const char *path, struct file *f)
{
	struct stat st;
	void *at = MAP_FAILED;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && st.st_size > 0) {
		f->size = (size_t)st.st_size;
		at = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	close(fd);
	f->at = at;
	return at != MAP_FAILED;
}

/* The n bytes at offset, or NULL: the file is cut short. */
static const void *bytes_at(const struct file *f, uint64_t offset, uint64_t n)
{
	return offset <= f->size && n <= f->size - offset ? f->at + offset : NULL;
}

static const ElfW(Shdr) * sections(const struct file *f, unsigned *n)
{
	const ElfW(Ehdr) *h = bytes_at(f, 0, sizeof(*h));

	if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 ||
	    h->e_shentsize != sizeof(ElfW(Shdr)))
		return NULL;
	*n = h->e_shnum;
	return bytes_at(f, h->e_shoff, (uint64_t)h->e_shnum * sizeof(ElfW(Shdr)));
}

/* Looks for the function that contains address in one table of symbols. */
static bool look_in(const struct file *f, const ElfW(Shdr) * tab,
		    const ElfW(Shdr) * names, uint64_t address, struct symbol *s)
{
	const ElfW(Sym) *sym = bytes_at(f, tab->sh_offset, tab->sh_size);
	const char *text = bytes_at(f, names->sh_offset, names->sh_size);

	if (!sym || !text)
		return false;
	for (uint64_t i = 0; i < tab->sh_size / sizeof(*sym); i++) {
		const uint64_t name = sym[i].st_name;

		if ((sym[i].st_info & 0xf) != STT_FUNC || !sym[i].st_shndx ||
		    address - sym[i].st_value >= sym[i].st_size || name >= names->sh_size)
			continue;
		snprintf(s->function, SYMBOL_NAME, "%.*s",
			 (int)(names->sh_size - name < SYMBOL_NAME ? names->sh_size - name
								   : SYMBOL_NAME),
			 text + name);
		s->offset = address - sym[i].st_value;
		return true;
	}
	return false;
}

static void look_in_file(const struct file *f, struct symbol *s)
{
	unsigned n = 0;
	const ElfW(Shdr) *sh = sections(f, &n);

	for (unsigned i = 0; sh && i < n; i++)
		if ((sh[i].sh_type == SHT_SYMTAB || sh[i].sh_type == SHT_DYNSYM) &&
		    sh[i].sh_link < n &&
		    look_in(f, &sh[i], &sh[sh[i].sh_link], s->address, s))
			return;
}

struct wanted {
	const void *address;
	const char *path;
	uint64_t base;
	bool found;
	char self[256];
};

static int is_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct wanted *w = arg;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const uintptr_t lo = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD || (uintptr_t)w->address - lo >= p->p_memsz)
			continue;
		w->path = info->dlpi_name;
		w->base = info->dlpi_addr;
		w->found = true;
		return 1;
	}
	return 0;
}

static bool find_object(const void *address, struct wanted *w, struct symbol *s)
{
	const char *slash;
	ssize_t n;

	memset(s, 0, sizeof(*s));
	w->address = address;
	dl_iterate_phdr(is_object, w);
	if (!w->found)
		return false;
	if (!w->path[0]) { /* the program itself */
		n = readlink("/proc/self/exe", w->self, sizeof(w->self) - 1);
		w->self[n > 0 ? n : 0] = '\0';
		w->path = w->self;
	}
	slash = strrchr(w->path, '/');
	snprintf(s->object, sizeof(s->object), "%.*s", SYMBOL_NAME - 1,
		 slash ? slash + 1 : w->path);
	s->address = (uintptr_t)address - w->base;
	return true;
}

bool symbol_object(const void *address, struct symbol *s)
{
	struct wanted w = { .found = false };

	return find_object(address, &w, s);
}

bool symbol_find(const void *address, struct symbol *s)
{
	struct wanted w = { .found = false };
	struct file f;

	if (!find_object(address, &w, s))
		return false;
	if (!map_file(w.path, &f))
		return true;
	look_in_file(&f, s);
	munmap((void *)(uintptr_t)f.at, f.size);
	return true;
}

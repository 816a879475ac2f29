/* SPDX-License-Identifier: BSD-2-Clause */
/* bare.c - see bare.h. */
#include "direct/bare.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

/* What was found, and how many libraries had been loaded by then. */
static _Atomic uint64_t adds;
static atomic_bool bare;

bool bare_notes(const void *notes, size_t len)
{
	static const char name[4] = "Go";
	const uint8_t *at = notes;
	ElfW(Nhdr) n;

	while (len >= sizeof(n)) {
		uint64_t all;

		memcpy(&n, at, sizeof(n));
		all = sizeof(n) + (((uint64_t)n.n_namesz + 3) & ~UINT64_C(3)) +
		      (((uint64_t)n.n_descsz + 3) & ~UINT64_C(3));
		if (all > len)
			return false;
		if (n.n_namesz == sizeof(name) &&
		    !memcmp(at + sizeof(n), name, sizeof(name)))
			return true;
		at += all;
		len -= all;
	}
	return false;
}

static bool has_notes(const struct dl_phdr_info *info)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_NOTE &&
		    bare_notes((const void *)(info->dlpi_addr + p->p_vaddr), p->p_memsz))
			return true;
	}
	return false;
}

/* The first one ends the walk if nothing has been loaded since the last. */
static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	const bool first = *(bool *)arg;

	(void)size;
	*(bool *)arg = false;
	if (first && info->dlpi_adds == atomic_load(&adds))
		return 1;
	atomic_store(&adds, info->dlpi_adds);
	if (!has_notes(info))
		return 0;
	atomic_store(&bare, true);
	return 1;
}

/* The notes may be missing (-buildid=); but this function is among the program's then. */
bool bare_calls(void)
{
	bool first = true;

	if (!atomic_load(&bare))
		(void)dl_iterate_phdr(look_at_object, &first);
	if (!first && dlsym(RTLD_DEFAULT, "crosscall2"))
		atomic_store(&bare, true);
	return atomic_load(&bare);
}

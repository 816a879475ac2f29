/* SPDX-License-Identifier: BSD-2-Clause */
/* program.c - checks programs for urnic run; see program.h. */
#include "program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#endif

static bool can_exec(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int program_find(const char *name, char *path, size_t size)
{
	const char *dirs = getenv("PATH");
	bool seen = false;

	if (strchr(name, '/')) {
		snprintf(path, size, "%s", name);
		if (can_exec(path))
			return 0;
		return access(path, F_OK) == 0 ? -EACCES : -ENOENT;
	}
	if (!dirs)
		dirs = "/bin:/usr/bin";
	while (*name) {
		size_t n = strcspn(dirs, ":");

		snprintf(path, size, "%.*s%s%s", (int)n, dirs, n ? "/" : "./", name);
		if (can_exec(path))
			return 0;
		seen |= access(path, F_OK) == 0;
		if (!dirs[n])
			break;
		dirs += n + 1;
	}
	return seen ? -EACCES : -ENOENT;
}

static __attribute__((format(printf, 3, 4))) int refuse(char *why, size_t size,
							const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return -ENOEXEC;
}

/* Refuses a program that gains privilege: the loader ignores LD_LIBRARY_PATH and
 * LD_PRELOAD for it. */
static int check_privilege(int fd, char *why, size_t size)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return 0;
	if (((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
	    ((st.st_mode & S_ISGID) && st.st_gid != getgid()))
		return refuse(why, size,
			      "is set-user-ID or set-group-ID: the"
			      " dynamic loader ignores LD_LIBRARY_PATH for it");
	if (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return refuse(why, size,
			      "has file capabilities: the dynamic"
			      " loader ignores LD_LIBRARY_PATH for it");
	return 0;
}

static int check_loader(int fd, const Elf64_Phdr *ph, char *why, size_t size)
{
	char interp[PATH_MAX] = "";
	size_t n = ph->p_filesz < sizeof(interp) ? ph->p_filesz : sizeof(interp) - 1;

	if (pread(fd, interp, n, (off_t)ph->p_offset) != (ssize_t)n)
		return refuse(why, size, "cannot be read");
	if (strstr(interp, "ld-musl"))
		return refuse(why, size,
			      "uses the C library musl (%s): urnic's"
			      " libraries need glibc",
			      interp);
	return 0;
}

static int check_elf(int fd, char *why, size_t size)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;

	if (pread(fd, &eh, sizeof(eh), 0) != sizeof(eh))
		return refuse(why, size, "is cut short");
	if (eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_machine != MACHINE)
		return refuse(why, size,
			      "is for another machine (%d-bit,"
			      " machine %u) than urnic's libraries",
			      eh.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32, eh.e_machine);
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		if (pread(fd, &ph, sizeof(ph), (off_t)(eh.e_phoff + i * sizeof(ph))) !=
		    sizeof(ph))
			return refuse(why, size, "is cut short");
		if (ph.p_type == PT_INTERP)
			return check_loader(fd, &ph, why, size);
	}
	return refuse(why, size, "is statically linked: it loads no libraries");
}

static int check_file(const char *path, bool script, char *why, size_t size)
{
	char head[256] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return 0; /* executable but not readable */
	if (pread(fd, head, sizeof(head) - 1, 0) < 4) {
		rc = refuse(why, size, "is no program");
	} else if (memcmp(head, ELFMAG, SELFMAG) == 0) {
		rc = check_privilege(fd, why, size);
		if (!rc)
			rc = check_elf(fd, why, size);
	} else if (head[0] == '#' && head[1] == '!' && !script) {
		char *p = head + 2 + strspn(head + 2, " \t");

		p[strcspn(p, " \t\r\n")] = '\0';
		rc = check_file(p, true, why, size);
	}
	close(fd);
	return rc;
}

int program_check(const char *path, char *why, size_t size)
{
	return check_file(path, false, why, size);
}

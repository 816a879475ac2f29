/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs.c - reads files below /sys, for older programs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/abi.h"

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* SYSFS_PATH replaces /sys, but not for a set-user-id program. */
EXPORT const char *ibv_get_sysfs_path(void)
{
	const char *path = secure_getenv("SYSFS_PATH");

	return path && *path ? path : "/sys";
}

/* Reads a file as a string, without the newline at its end. Returns the length, or -1;
 * errno is EOVERFLOW if the string does not fit in size bytes. */
EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[4096];
	ssize_t n;
	int fd;

	if (!GIVEN("read_sysfs_file", dir) || !GIVEN("read_sysfs_file", file) ||
	    !GIVEN("read_sysfs_file", buf))
		return -1;
	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buf, size);
	close(fd);
	if (n < 0)
		return -1;
	if (n > 0 && buf[n - 1] == '\n') {
		n--;
	} else if ((size_t)n == size) {
		errno = EOVERFLOW;
		return -1;
	}
	buf[n] = '\0';
	return (int)n;
}

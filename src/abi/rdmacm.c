/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmacm.c - what librdmacm does not have yet: programs that link
 * it load and run as long as they do not use that. */
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "abi/symver.h"

#define STUB __attribute__((used, visibility("hidden")))

long rdmacm_INT(void);

/* Once a process. */
static void say(void)
{
	static const char line[] =
		"urnic: a call of librdmacm that is not there yet: ENOSYS\n";
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said) &&
	    write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
		return; /* nobody listens */
}

/* As long as the longest of int, ssize_t and off_t. */
STUB long rdmacm_INT(void)
{
	say();
	errno = ENOSYS;
	return -1;
}

#define INT(node, name) SYMBOL(#name "_stub", #name "@@" #node, rdmacm_INT)
#include "abi/rdmacm.def"

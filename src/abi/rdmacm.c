/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmacm.c - stubs for what librdmacm does not have yet, so that programs that link it
 * load, and run as long as they do not call a stub. */
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "abi/symver.h"

#define STUB __attribute__((used, visibility("hidden")))

long rdmacm_INT(void);

/* Writes the message once in a process. */
static void say_unsupported(void)
{
	static const char line[] =
		"urnic: the program called a function of librdmacm that "
		"urnic does not have: ENOSYS\n";
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said) &&
	    write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
		return; /* stderr is closed */
}

/* long, since it stands for functions that return int, ssize_t or off_t. */
STUB long rdmacm_INT(void)
{
	say_unsupported();
	errno = ENOSYS;
	return -1;
}

#define INT(node, name) SYMBOL(#name "_stub", #name "@@" #node, rdmacm_INT)
#include "abi/rdmacm.def"

/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmacm.c - a stand-in for librdmacm: programs that link it load and run as
 * long as they do not use it. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "abi/symver.h"

#define STUB __attribute__((used, visibility("hidden")))

long rdmacm_INT(void);
void *rdmacm_PTR(void);
long rdmacm_VOID(void);
const char *rdmacm_STR(void);

/* Once a process. */
static void say(void)
{
	static const char line[] =
		"urnic: rdma_cm is not there yet: this librdmacm answers ENOSYS\n";
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said) &&
	    write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
		return;			/* nobody listens */
}

/* As long as the longest of int, ssize_t and off_t. */
STUB long rdmacm_INT(void)
{
	say();
	errno = ENOSYS;
	return -1;
}

STUB void *rdmacm_PTR(void)
{
	say();
	errno = ENOSYS;
	return NULL;
}

STUB long rdmacm_VOID(void)
{
	say();
	return 0;
}

STUB const char *rdmacm_STR(void)
{
	say();
	return "UNKNOWN EVENT";
}

#define INT(node, name)	 SYMBOL(#name "_stub", #name "@@" #node, rdmacm_INT)
#define PTR(node, name)	 SYMBOL(#name "_stub", #name "@@" #node, rdmacm_PTR)
#define VOID(node, name) SYMBOL(#name "_stub", #name "@@" #node, rdmacm_VOID)
#define STR(node, name)	 SYMBOL(#name "_stub", #name "@@" #node, rdmacm_STR)
#include "abi/rdmacm.def"

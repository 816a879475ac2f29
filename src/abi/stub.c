/* SPDX-License-Identifier: BSD-2-Clause */
/* stub.c - the symbols of stub.def: each is another name of one of the few functions
 * below, which do not read their arguments. */
#include "abi/abi.h"
#include "abi/symver.h"

#define STUB __attribute__((used, visibility("hidden")))

int abi_none_INT(void);
int abi_none_FD(void);
void *abi_none_PTR(void);
long abi_none_VOID(void);
int abi_nosys_INT(void);
int abi_nosys_FD(void);
void *abi_nosys_PTR(void);
long abi_nosys_VOID(void);

STUB int abi_none_INT(void)
{
	return abi_result(-EOPNOTSUPP);
}

STUB int abi_none_FD(void)
{
	errno = EOPNOTSUPP;
	return -1;
}

STUB void *abi_none_PTR(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

STUB long abi_none_VOID(void)
{
	return 0;
}

STUB int abi_nosys_INT(void)
{
	return abi_result(-ENOSYS);
}

STUB int abi_nosys_FD(void)
{
	errno = ENOSYS;
	return -1;
}

STUB void *abi_nosys_PTR(void)
{
	errno = ENOSYS;
	return NULL;
}

STUB long abi_nosys_VOID(void)
{
	return 0;
}

#define NEWER(node, kind, name)	 SYMBOL(#name "_new", #name "@@" #node, abi_none_##kind)
#define HIDDEN(node, kind, name) SYMBOL(#name "_old", #name "@" #node, abi_nosys_##kind)
#define PRIVATE(kind, name)	 PRIVATE_SYMBOL(name, abi_nosys_##kind)
#include "abi/stub.def"

/* The symbol whose name contains the node's number. */
__asm__(".irp node, 34, " PRIVATE_NODES "\n\t"
	".globl register_in_\\node\n\t"
	".set register_in_\\node, abi_nosys_VOID\n\t"
	".symver register_in_\\node, "
	"verbs_register_driver_\\node@@IBVERBS_PRIVATE_\\node\n\t"
	".endr");

/* The one symbol that is data: drivers set it, and nothing reads it. */
extern bool verbs_allow_disassociate_destroy;
EXPORT bool verbs_allow_disassociate_destroy;
PRIVATE_SYMBOL(verbs_allow_disassociate_destroy, verbs_allow_disassociate_destroy)

/* SPDX-License-Identifier: BSD-2-Clause */
/* Symbols that only report that nothing is behind them, and calls by which librdmacm and
 * old programs ask about the kernel's files, with any arguments. */
#include "refused.h"

#include <dlfcn.h>

typedef long (*any_fn)(void *, void *, void *, void *, void *, void *);
typedef const char *(*path_fn)(void);
typedef int (*file_fn)(const char *dir, const char *file, char *buf, size_t size);

static void *verbs, *rdmacm;

/* kind: as in the tables of stubs. Stubs that return nothing leave errno alone. */
static int answer(const char *kind, any_fn fn, void *arg)
{
	const long rc = fn(arg, arg, arg, arg, arg, arg);

	if (!strcmp(kind, "VOID"))
		return (int)rc ? -1 : errno;
	if (!strcmp(kind, "PTR"))
		return of_pointer((void *)rc);
	return strcmp(kind, "FD") ? of_errno((int)rc) : of_minus((int)rc);
}

static void stub(void *lib, const char *node, const char *kind, const char *name,
		 int want)
{
	any_fn fn = (any_fn)dlvsym(lib, name, node);

	if (!strcmp(kind, "VOID"))
		want = 0;
	row_begin(name, "any argument NULL");
	row_end(fn ? answer(kind, fn, NULL) : -2000, want);
	row_begin(name, "any argument of no memory");
	row_end(fn ? answer(kind, fn, (void *)8) : -2000, want);
}

static void files(void)
{
	path_fn path = (path_fn)dlsym(verbs, "ibv_get_sysfs_path");
	file_fn read_it = (file_fn)dlsym(verbs, "ibv_read_sysfs_file");
	char buf[8];

	ROW_OF("ibv_get_sysfs_path", "no argument", -1000, of_pointer, path());
	ROW_OF("ibv_read_sysfs_file", "dir NULL", EINVAL, of_minus,
	       read_it(NULL, "x", buf, sizeof(buf)));
	ROW_OF("ibv_read_sysfs_file", "file NULL", EINVAL, of_minus,
	       read_it("/", NULL, buf, sizeof(buf)));
	ROW_OF("ibv_read_sysfs_file", "file that is none", ENOENT, of_minus,
	       read_it("/", "none", buf, sizeof(buf)));
	ROW_OF("ibv_read_sysfs_file", "buf NULL", EINVAL, of_minus,
	       read_it("/", "x", NULL, 8));
	ROW_OF("ibv_read_sysfs_file", "size less than the file", EOVERFLOW, of_minus,
	       read_it("/proc/self", "stat", buf, sizeof(buf)));
}

/* Four functions that copy one struct to another; as with memcpy(), neither pointer may
 * be NULL. */
static void copies(void)
{
	static const char *const names[] = { "ibv_copy_ah_attr_from_kern",
					     "ibv_copy_qp_attr_from_kern",
					     "ibv_copy_path_rec_from_kern",
					     "ibv_copy_path_rec_to_kern" };
	any_fn fn;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		fn = (any_fn)dlsym(verbs, names[i]);
		row_begin(names[i], "dst NULL");
		fn(NULL, memory, NULL, NULL, NULL, NULL);
		row_end(0, 0);
		row_begin(names[i], "src NULL");
		fn(memory, NULL, NULL, NULL, NULL, NULL);
		row_end(0, 0);
	}
}

static void opcode_names(void)
{
	const char *(*str)(int) = (const char *(*)(int))dlvsym(verbs, "ibv_wr_opcode_str",
							       "IBVERBS_PRIVATE_65");

	for (int n = -1; n < 2; n++) {
		row_begin("ibv_wr_opcode_str", "opcode unknown");
		row_end(str && !strcmp(str(n * 99 + !n * 12), "unknown") ? 0 : -2000, 0);
	}
}

#define NEWER(node, kind, name)	 stub(verbs, #node, #kind, #name, EOPNOTSUPP);
#define HIDDEN(node, kind, name) stub(verbs, #node, #kind, #name, ENOSYS);
#define PRIVATE(kind, name)	 stub(verbs, "IBVERBS_PRIVATE_34", #kind, #name, ENOSYS);
#define INT(node, name)		 stub(rdmacm, #node, "FD", #name, ENOSYS);

void stub_rows(void)
{
	verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
	rdmacm = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_NOLOAD);
#include "abi/rdmacm.def"
#include "abi/stub.def"
	files();
	copies();
	opcode_names();
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_net.c - makes up the directory /sys/class/infiniband/DEVICE/device/net, which
 * tests list (with `ls` or Python) to find the interface of a device.
 *
 * Opening it opens the kernel's directory of all interfaces of this namespace; readdir()
 * then shows only the device's. */
#undef _FILE_OFFSET_BITS

#include "preload.h"

#include <dirent.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static const char interfaces[] = "/proc/sys/net/ipv4/conf";

enum { OPEN_MAX_ = 16 }; /* so many may be open at once; further ones are not filtered */

static struct shown {
	_Atomic(DIR *) dir;
	char name[IF_NAMESIZE];
} shown[OPEN_MAX_];
static atomic_uint shown_n;

/* --- which interface ----------------------------------------------------- */

/* urnic's libibverbs: the copy that the program has loaded, or would load. */
struct verbs {
	struct ibv_device **(*list)(int *n);
	void (*free_list)(struct ibv_device **list);
	struct ibv_context *(*open)(struct ibv_device *dev);
	int (*close)(struct ibv_context *ctx);
	int (*gid)(struct ibv_context *ctx, uint32_t port, uint32_t index,
		   struct ibv_gid_entry *e, uint32_t flags, size_t size);
};

static bool find_verbs(struct verbs *v)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		return false;
	*(void **)&v->list = dlsym(lib, "ibv_get_device_list");
	*(void **)&v->free_list = dlsym(lib, "ibv_free_device_list");
	*(void **)&v->open = dlsym(lib, "ibv_open_device");
	*(void **)&v->close = dlsym(lib, "ibv_close_device");
	*(void **)&v->gid = dlsym(lib, "_ibv_query_gid_ex");
	return v->list && v->free_list && v->open && v->close && v->gid;
}

static bool first_gid(const struct verbs *v, struct ibv_device *dev,
		      char name[IF_NAMESIZE])
{
	struct ibv_context *ctx = v->open(dev);
	struct ibv_gid_entry e;
	bool found;

	if (!ctx)
		return false;
	found = v->gid(ctx, 1, 0, &e, 0, sizeof(e)) == 0 &&
		if_indextoname(e.ndev_ifindex, name);
	v->close(ctx);
	return found;
}

/* Asks verbs for a device's interface, since under an identity the device's name does not
 * contain it. */
static bool ask_verbs(const char *device, char name[IF_NAMESIZE])
{
	struct ibv_device **list;
	bool found = false;
	struct verbs v;

	list = find_verbs(&v) ? v.list(NULL) : NULL;
	for (int i = 0; list && list[i] && !found; i++)
		found = !strcmp(list[i]->name, device) && first_gid(&v, list[i], name);
	if (list)
		v.free_list(list);
	return found;
}

bool interface_of(const char *device, char name[IF_NAMESIZE])
{
	const char *net = !strncmp(device, "roce_", 5)	  ? device + 5
			  : !strncmp(device, "iwarp_", 6) ? device + 6
							  : NULL;

	if (!net)
		return ask_verbs(device, name);
	snprintf(name, IF_NAMESIZE, "%s", net);
	return if_nametoindex(name) != 0;
}

bool is_net_dir(const char *path, char name[IF_NAMESIZE])
{
	int saved = errno, end = 0;
	char device[64];
	bool is;

	if (!path ||
	    sscanf(path, "/sys/class/infiniband/%63[^/]/device/net%n", device, &end) !=
		    1 ||
	    !end || path[end + (int)strspn(path + end, "/")])
		return false;
	is = interface_of(device, name);
	errno = saved;
	return is;
}

/* --- reading it ---------------------------------------------------------- */

static struct shown *find(DIR *dir)
{
	if (!atomic_load(&shown_n))
		return NULL;
	for (int i = 0; i < OPEN_MAX_; i++)
		if (atomic_load(&shown[i].dir) == dir)
			return &shown[i];
	return NULL;
}

static void show(DIR *dir, const char *name)
{
	for (int i = 0; i < OPEN_MAX_; i++) {
		DIR *none = NULL;

		/* No other thread has dir yet. */
		if (!atomic_compare_exchange_strong(&shown[i].dir, &none, dir))
			continue;
		memcpy(shown[i].name, name, IF_NAMESIZE);
		atomic_fetch_add(&shown_n, 1);
		return;
	}
}

PUBLIC DIR *opendir(const char *path)
{
	static struct real r = { .name = "opendir" };
	DIR *(*fn)(const char *);
	char name[IF_NAMESIZE];
	DIR *dir;

	*(void **)&fn = preload_next(&r);
	dir = fn ? fn(path) : NULL;
	if (dir || !fn || errno == EFAULT || !is_net_dir(path, name))
		return dir;
	dir = fn(interfaces);
	if (dir)
		show(dir, name);
	return dir;
}

static void *do_readdir(struct real *r, DIR *dir, size_t name_at)
{
	const struct shown *s = find(dir);
	void *(*fn)(DIR *);
	const char *name;
	char *e;

	*(void **)&fn = preload_next(r);
	if (!fn)
		return NULL;
	do {
		e = fn(dir);
		name = e + name_at;
	} while (s && e && strcmp(name, ".") && strcmp(name, "..") &&
		 strcmp(name, s->name));
	return e;
}

PUBLIC struct dirent *readdir(DIR *dir)
{
	static struct real r = { .name = "readdir" };

	return do_readdir(&r, dir, offsetof(struct dirent, d_name));
}

PUBLIC struct dirent64 *readdir64(DIR *dir)
{
	static struct real r = { .name = "readdir64" };

	return do_readdir(&r, dir, offsetof(struct dirent64, d_name));
}

PUBLIC int closedir(DIR *dir)
{
	static struct real r = { .name = "closedir" };
	struct shown *s = find(dir);
	int (*fn)(DIR *);

	*(void **)&fn = preload_next(&r);
	if (s) {
		atomic_fetch_sub(&shown_n, 1);
		atomic_store(&s->dir, NULL);
	}
	return fn ? fn(dir) : -1;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* nccl.c - asks for devices in the way of NCCL's plugin for InfiniBand and RoCE, and says
 * what it found, a line for each fact: "what: value".
 *
 * NCCL itself runs with a GPU only.  What it asks: the library's symbols by version; of a
 * device its attributes, its PCI function in /sys and that function's bridge, and the
 * RoCE version of each GID; of memory whether it may be registered with relaxed ordering
 * and from a DMA-buf.  Then a QP that is connected to itself reads a byte.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The functions of the library, by the versions that NCCL names. */
static struct {
	struct ibv_device **(*get_device_list)(int *);
	void (*free_device_list)(struct ibv_device **);
	const char *(*get_device_name)(struct ibv_device *);
	struct ibv_context *(*open_device)(struct ibv_device *);
	int (*close_device)(struct ibv_context *);
	int (*query_device)(struct ibv_context *, struct ibv_device_attr *);
	int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *);
	int (*query_gid)(struct ibv_context *, uint8_t, int, union ibv_gid *);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *);
	int (*dealloc_pd)(struct ibv_pd *);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *, void *, size_t, int);
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *, void *, size_t, uint64_t,
				       unsigned);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *, uint64_t, size_t, uint64_t, int,
					int);
	int (*dereg_mr)(struct ibv_mr *);
	struct ibv_cq *(*create_cq)(struct ibv_context *, int, void *,
				    struct ibv_comp_channel *, int);
	int (*destroy_cq)(struct ibv_cq *);
	struct ibv_qp *(*create_qp)(struct ibv_pd *, struct ibv_qp_init_attr *);
	int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
	int (*query_qp)(struct ibv_qp *, struct ibv_qp_attr *, int,
			struct ibv_qp_init_attr *);
	int (*destroy_qp)(struct ibv_qp *);
	int (*fork_init)(void);
	int (*query_ece)(struct ibv_qp *, struct ibv_ece *);
	int (*set_ece)(struct ibv_qp *, struct ibv_ece *);
	void *get_async_event, *ack_async_event, *event_type_str;
} verbs;

static const struct {
	const char *name, *version;
	void *to;
} symbols[] = {
#define OLD(name)                                                                        \
	{                                                                                \
		"ibv_" #name, "IBVERBS_1.1", &verbs.name                                 \
	}
	OLD(get_device_list),
	OLD(free_device_list),
	OLD(get_device_name),
	OLD(open_device),
	OLD(close_device),
	OLD(query_device),
	OLD(query_port),
	OLD(query_gid),
	OLD(alloc_pd),
	OLD(dealloc_pd),
	OLD(reg_mr),
	OLD(dereg_mr),
	OLD(create_cq),
	OLD(destroy_cq),
	OLD(create_qp),
	OLD(modify_qp),
	OLD(query_qp),
	OLD(destroy_qp),
	OLD(fork_init),
	OLD(get_async_event),
	OLD(ack_async_event),
	OLD(event_type_str),
	{ "ibv_reg_mr_iova2", "IBVERBS_1.8", &verbs.reg_mr_iova2 },
	{ "ibv_query_ece", "IBVERBS_1.10", &verbs.query_ece },
	{ "ibv_set_ece", "IBVERBS_1.10", &verbs.set_ece },
	{ "ibv_reg_dmabuf_mr", "IBVERBS_1.12", &verbs.reg_dmabuf_mr },
};

static void need(const char *what, int good)
{
	if (good)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static void find_symbols(void)
{
	void *lib = dlopen("libibverbs.so", RTLD_NOW);

	need("libibverbs.so", lib != NULL);
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		void *at = dlvsym(lib, symbols[i].name, symbols[i].version);

		need(symbols[i].name, at != NULL);
		*(void **)symbols[i].to = at;
	}
	printf("symbols: %zu\n", sizeof(symbols) / sizeof(*symbols));
}

/* --- /sys -------------------------------------------------------------------- */

static void say_file(const char *what, const char *dir, const char *name)
{
	char path[2 * PATH_MAX], text[256] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "r");
	if (f && !fgets(text, sizeof(text), f))
		*text = '\0';
	if (f)
		fclose(f);
	text[strcspn(text, "\n")] = '\0';
	printf("%s: %s\n", what, f ? text : strerror(errno));
}

static void say_real(const char *what, const char *path)
{
	char real[PATH_MAX];

	printf("%s: %s\n", what, realpath(path, real) ? real : strerror(errno));
}

/* Where the device's PCI function is: from the class, and from its bus.  NCCL takes
 * functions of one card for one NIC, so it looks at function 0 of device 0. */
static void say_function(const char *name)
{
	static const char *const files[] = { "class",	       "vendor",
					     "device",	       "subsystem_vendor",
					     "max_link_speed", "max_link_width",
					     "numa_node" };
	char path[PATH_MAX + 80], real[PATH_MAX], *function;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", name);
	need(path, realpath(path, real) != NULL);
	printf("function: %s\n", real);
	real[strlen(real) - 1] = real[strlen(real) - 3] = real[strlen(real) - 4] = '0';
	say_real("card", real);
	snprintf(path, sizeof(path), "%s/subsystem", real);
	say_real("subsystem", path);
	function = strrchr(real, '/') + 1;
	snprintf(path, sizeof(path), "/sys/class/pci_bus/%.7s/../../%s", function,
		 function);
	say_real("from its bus", path);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", function);
	say_real("by its name", path);
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		say_file(files[i], real, files[i]);
}

static void say_roce_version(const char *name, unsigned port, int gid)
{
	char path[PATH_MAX], text[16] = "";
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path),
		 "/sys/class/infiniband/%s/ports/%u/gid_attrs/types/%d", name, port, gid);
	fd = open(path, O_RDONLY);
	need(path, fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	text[strcspn(text, "\n")] = '\0';
	printf("gid %d: %s\n", gid, n < 0 ? strerror(errno) : text);
	close(fd);
}

/* --- verbs ------------------------------------------------------------------- */

static void say_memory(struct ibv_pd *pd, char *buf, size_t len)
{
	struct ibv_mr *mr =
		verbs.reg_mr_iova2(pd, buf, len, (uintptr_t)buf,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					   IBV_ACCESS_RELAXED_ORDERING);

	printf("relaxed ordering: %s\n", mr ? "yes" : strerror(errno));
	if (mr)
		verbs.dereg_mr(mr);
	errno = 0;
	mr = verbs.reg_dmabuf_mr(pd, 0, 0, 0, -1, 0);
	printf("DMA-buf: %s\n", mr ? "yes" : strerror(errno));
}

/* Connects a QP to itself. */
static void connect_qp(struct ibv_qp *qp, const struct ibv_port_attr *port,
		       const union ibv_gid *gid, int index)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_WRITE };
	struct ibv_ece ece = { 0 };
	int rc = verbs.modify_qp(qp, &a,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					 IBV_QP_ACCESS_FLAGS);

	need("INIT", rc == 0);
	rc = verbs.query_ece(qp, &ece);
	printf("ECE: %s\n", rc ? strerror(rc) : ece.vendor_id ? "a vendor's" : "none");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = port->active_mtu,
				  .dest_qp_num = qp->qp_num,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 12,
				  .ah_attr = { .port_num = 1, .dlid = port->lid } };
	if (port->link_layer == IBV_LINK_LAYER_ETHERNET) {
		a.ah_attr.is_global = 1;
		a.ah_attr.grh.dgid = *gid;
		a.ah_attr.grh.sgid_index = (uint8_t)index;
		a.ah_attr.grh.hop_limit = 255;
	}
	rc = verbs.modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	need("RTR", rc == 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				  .timeout = 20,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .max_rd_atomic = 1 };
	rc = verbs.modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC);
	need("RTS", rc == 0);
}

/* A READ of one byte by a QP that is connected to itself. */
static void say_flush(struct ibv_pd *pd, const struct ibv_port_attr *port,
		      const union ibv_gid *gid, int index, char *buf, size_t len)
{
	struct ibv_cq *cq = verbs.create_cq(pd->context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct ibv_qp *qp = verbs.create_qp(pd, &init);
	struct ibv_mr *mr = verbs.reg_mr(pd, buf, len,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
						 IBV_ACCESS_REMOTE_WRITE);
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;
	int n;

	need("objects", cq && qp && mr);
	connect_qp(qp, port, gid, index);
	sge = (struct ibv_sge){ .addr = (uintptr_t)buf, .length = 1, .lkey = mr->lkey };
	wr.wr.rdma.remote_addr = (uintptr_t)buf + 1;
	wr.wr.rdma.rkey = mr->rkey;
	buf[1] = 'x';
	need("post", ibv_post_send(qp, &wr, &bad) == 0);
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	printf("flush: %s\n", n == 1 && wc.status == IBV_WC_SUCCESS && buf[0] == 'x'
				      ? "done"
				      : "failed");
	verbs.destroy_qp(qp);
	verbs.dereg_mr(mr);
	verbs.destroy_cq(cq);
}

/* Finds the GID of an IPv4 address by which NCCL speaks RoCE v2. */
static int find_gid(struct ibv_context *ctx, const char *name,
		    const struct ibv_port_attr *port, union ibv_gid *gid)
{
	static const uint8_t ipv4[12] = { [10] = 0xff, [11] = 0xff };
	int found = 0;

	for (int i = 0; i < port->gid_tbl_len; i++) {
		union ibv_gid g;

		need("GID", verbs.query_gid(ctx, 1, i, &g) == 0);
		if (i < 4 && port->link_layer == IBV_LINK_LAYER_ETHERNET)
			say_roce_version(name, 1, i);
		if (!found && !memcmp(g.raw, ipv4, sizeof(ipv4)))
			found = i;
	}
	need("GID", verbs.query_gid(ctx, 1, found, gid) == 0);
	printf("GID index: %d\n", found);
	return found;
}

static void say_device(struct ibv_device *dev)
{
	static char buf[8192] __attribute__((aligned(4096)));
	const char *name = verbs.get_device_name(dev);
	struct ibv_context *ctx = verbs.open_device(dev);
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_pd *pd;
	int index;

	need(name, ctx && verbs.query_device(ctx, &attr) == 0);
	printf("name: %s\nports: %u\n", name, attr.phys_port_cnt);
	memset(&port, 0, sizeof(port));
	need("port", verbs.query_port(ctx, 1, &port) == 0);
	printf("state: %d\nlink layer: %u\nspeed: %u x %u\n", port.state, port.link_layer,
	       port.active_speed, port.active_width);
	say_function(name);
	index = find_gid(ctx, name, &port, &gid);
	pd = verbs.alloc_pd(ctx);
	need("PD", pd != NULL);
	say_memory(pd, buf, sizeof(buf));
	say_flush(pd, &port, &gid, index, buf, sizeof(buf));
	need("the end", verbs.dealloc_pd(pd) == 0 && verbs.close_device(ctx) == 0);
}

int main(void)
{
	struct ibv_device **list;
	int n;

	find_symbols();
	need("fork_init", verbs.fork_init() == 0);
	list = verbs.get_device_list(&n);
	need("devices", list && n > 0);
	for (int i = 0; i < n; i++)
		say_device(list[i]);
	verbs.free_device_list(list);
	return 0;
}

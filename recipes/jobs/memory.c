/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c - registers memory with each device. */
#include <infiniband/verbs.h>
#include <stdio.h>

static int registered(struct ibv_device *device)
{
	static char buf[4096];
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_mr *mr =
		pd ? ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE) : NULL;

	if (!mr) {
		perror(ibv_get_device_name(device));
		return 0;
	}
	printf("%s: lkey 0x%x\n", ibv_get_device_name(device), mr->lkey);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	return 1;
}

int main(void)
{
	int n = 0, good = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; i < n; i++)
		good += registered(list[i]);
	if (list)
		ibv_free_device_list(list);
	printf("%d of %d devices\n", good, n);
	return n == 0 || good != n;
}

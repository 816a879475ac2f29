/* SPDX-License-Identifier: BSD-2-Clause */
/* collective.c - every rank to every rank: MPI_Alltoall of 1 byte to 1 MiB,
 * MPI_Allreduce, and MPI_Put into the neighbour's window, all data checked.  Rank 0
 * prints "N ranks, no error" when all agree that there was none.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1 << 20, STEP = 32, WINDOW = 4096 };

static int rank, ranks, wrong;

/* The byte at offset `at` of what rank `from` sends to rank `to`. */
static unsigned char byte_of(int from, int to, int at)
{
	return (unsigned char)(from * 31 + to * 7 + at);
}

static void *memory(size_t len)
{
	void *at = malloc(len);

	if (!at)
		MPI_Abort(MPI_COMM_WORLD, 1);
	return at;
}

static void all_to_all(int len)
{
	const size_t all = (size_t)len * (size_t)ranks;
	unsigned char *out = memory(all), *in = memory(all);

	for (int r = 0; r < ranks; r++)
		for (int i = 0; i < len; i++)
			out[(size_t)r * (size_t)len + (size_t)i] = byte_of(rank, r, i);
	memset(in, 0xee, all);
	MPI_Alltoall(out, len, MPI_BYTE, in, len, MPI_BYTE, MPI_COMM_WORLD);
	for (int r = 0; r < ranks; r++)
		for (int i = 0; i < len; i++)
			wrong += in[(size_t)r * (size_t)len + (size_t)i] !=
				 byte_of(r, rank, i);
	free(out);
	free(in);
}

static void reduce(void)
{
	long mine = rank, sum = -1;

	MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	wrong += sum != (long)ranks * (ranks - 1) / 2;
}

static void put(void)
{
	const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
	unsigned char out[WINDOW], *in;
	MPI_Win win;

	MPI_Win_allocate(WINDOW, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &in, &win);
	memset(in, 0xee, WINDOW);
	for (int i = 0; i < WINDOW; i++)
		out[i] = byte_of(rank, right, i);
	MPI_Win_fence(0, win);
	MPI_Put(out, WINDOW, MPI_BYTE, right, 0, WINDOW, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	for (int i = 0; i < WINDOW; i++)
		wrong += in[i] != byte_of(left, rank, i);
	MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
	int all = -1;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int len = 1; len <= LONGEST; len *= STEP)
		all_to_all(len);
	reduce();
	put();
	MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!rank)
		printf("%d ranks, %s\n", ranks, all ? "wrong data" : "no error");
	MPI_Finalize();
	return all != 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* guarded.S - the instructions that touch memory which may have been unmapped.
 *
 * A fault between guarded_begin and guarded_end is recognised by its address: the handler
 * makes the thread continue at guarded_fault, and the call returns -EFAULT (guard.c).  So
 * nothing needs to be set up before an access or undone after it; for that the routines
 * use no stack and call no function. */
#if defined(__x86_64__)

#define ROUTINE(name)                                                          \
	.globl name;                                                           \
	.hidden name;                                                          \
	.type name, @function;                                                 \
	.p2align 4;                                                            \
name:;                                                                         \
	.cfi_startproc
#define END(name)                                                              \
	.cfi_endproc;                                                          \
	.size name, . - name

	.text
	.globl guarded_begin
	.hidden guarded_begin
guarded_begin:

/* int guarded_copy(void *dst, const void *src, size_t n)
 *
 * Copies upward.  The last 64 to 79 bytes go in the largest aligned stores, each of
 * which becomes visible as a whole (Intel SDM vol. 3, Guaranteed Atomic Operations: of 16
 * bytes where there is AVX).  The processor makes stores visible in their order, and a
 * string instruction as a whole in order with them (Memory Ordering).
 *
 * Where there is AVX the other bytes go in vectors.  rep movsb is slower below 4 KiB, and
 * on Zen 4 takes 15 times as long where dst lies 1 to 31 bytes behind src in its page. */
ROUTINE(guarded_copy)
	cmpq	$8, %rdx
	jne	1f
	testb	$7, %dil
	jne	4f
	movq	(%rsi), %rax
	movq	%rax, (%rdi)
	xorl	%eax, %eax
	ret
1:	cmpq	$80, %rdx
	jb	4f
	leaq	-64(%rdx), %rcx
	andq	$-16, %rcx
	subq	%rcx, %rdx
	cmpq	$128, %rcx
	jb	2f
	cmpb	$0, guarded_avx(%rip)
	jne	8f
	cmpq	$512, %rcx
	jae	3f
2:	movups	(%rsi), %xmm0
	movups	%xmm0, (%rdi)
	addq	$16, %rsi
	addq	$16, %rdi
	subq	$16, %rcx
	jne	2b
	jmp	4f
3:	rep movsb
	jmp	4f
8:	vmovdqu	(%rsi), %ymm0
	vmovdqu	32(%rsi), %ymm1
	vmovdqu	64(%rsi), %ymm2
	vmovdqu	96(%rsi), %ymm3
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm1, 32(%rdi)
	vmovdqu	%ymm2, 64(%rdi)
	vmovdqu	%ymm3, 96(%rdi)
	subq	$-128, %rsi
	subq	$-128, %rdi
	addq	$-128, %rcx
	cmpq	$128, %rcx
	jae	8b
	vzeroupper
	testb	$15, %dil
	je	9f
	testq	%rcx, %rcx
	jne	2b
	jmp	4f
9:	addq	%rcx, %rdx
10:	movups	(%rsi), %xmm0
	movaps	%xmm0, (%rdi)
	addq	$16, %rsi
	addq	$16, %rdi
	subq	$16, %rdx
	cmpq	$16, %rdx
	jae	10b
4:	cmpq	$8, %rdx
	jb	5f
	testb	$7, %dil
	jne	5f
	movq	(%rsi), %rax
	movq	%rax, (%rdi)
	addq	$8, %rsi
	addq	$8, %rdi
	subq	$8, %rdx
	jmp	4b
5:	cmpq	$4, %rdx
	jb	6f
	testb	$3, %dil
	jne	6f
	movl	(%rsi), %eax
	movl	%eax, (%rdi)
	addq	$4, %rsi
	addq	$4, %rdi
	subq	$4, %rdx
	jmp	4b
6:	testq	%rdx, %rdx
	je	7f
	movzbl	(%rsi), %eax
	movb	%al, (%rdi)
	incq	%rsi
	incq	%rdi
	decq	%rdx
	jmp	4b
7:	xorl	%eax, %eax
	ret
END(guarded_copy)

/* int guarded_cmp_swap(uint64_t *at, uint64_t compare, uint64_t swap,
 *			uint64_t *orig) */
ROUTINE(guarded_cmp_swap)
	movq	%rsi, %rax
	lock cmpxchgq %rdx, (%rdi)
	movq	%rax, (%rcx)
	xorl	%eax, %eax
	ret
END(guarded_cmp_swap)

/* int guarded_fetch_add(uint64_t *at, uint64_t add, uint64_t *orig) */
ROUTINE(guarded_fetch_add)
	lock xaddq %rsi, (%rdi)
	movq	%rsi, (%rdx)
	xorl	%eax, %eax
	ret
END(guarded_fetch_add)

	.globl guarded_end
	.hidden guarded_end
guarded_end:

ROUTINE(guarded_fault)
	movl	$-14, %eax /* -EFAULT */
	ret
END(guarded_fault)

#endif
	.section .note.GNU-stack, "", @progbits

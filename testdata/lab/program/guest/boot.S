/* The boot sector: loads the rest of the program, enters 32-bit protected mode
   with flat segments and calls run. Also here: the one interrupt handler.

   The BIOS starts it in real mode at 0:0x7c00 with the boot drive in %dl. */

	.section .boot, "ax"
	.code16
	.globl boot
boot:
	cli
	xorw	%ax, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	movw	$0x7c00, %sp
	ljmp	$0, $load
load:
	movw	$packet, %si
	movb	$0x42, %ah		/* extended read, by sector number */
	int	$0x13
	jc	dead
	cli				/* the BIOS may have allowed interrupts */
	lgdt	gdt_pointer
	movl	%cr0, %eax
	orb	$1, %al			/* protection on */
	movl	%eax, %cr0
	ljmp	$0x08, $protected
dead:
	hlt
	jmp	dead

	.balign 4
packet:					/* disk address packet of int 13h, 42h */
	.byte	16, 0
	.word	loaded_sectors
	.word	0x7e00, 0		/* to offset, segment */
	.quad	1			/* from the sector after this one */

	.balign 8
gdt:
	.quad	0
	.quad	0x00cf9a000000ffff	/* 0x08: code, 0 to 4 GiB */
	.quad	0x00cf92000000ffff	/* 0x10: data, the same */
gdt_pointer:
	.word	gdt_pointer - gdt - 1
	.long	gdt

	.code32
protected:
	movw	$0x10, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	movl	$0x7c00, %esp
	movl	$bss_start, %edi
	movl	$bss_end, %ecx
	subl	%edi, %ecx
	xorl	%eax, %eax
	cld
	rep stosb
	call	run
stop:					/* run does not return */
	cli
	hlt
	jmp	stop

	.globl	on_tick
on_tick:				/* the timer's interrupt only has to end a hlt */
	pushl	%eax
	movb	$0x20, %al
	outb	%al, $0x20		/* end of interrupt, to the first controller */
	popl	%eax
	iret

	.org	boot + 510
	.word	0xaa55			/* what the BIOS knows a boot sector by */

	.section .note.GNU-stack, "", @progbits

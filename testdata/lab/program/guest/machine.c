/* See machine.h. */
#include "machine.h"

#define COM1 0x3f8
#define LINE_STATUS (COM1 + 5)
#define TRANSMIT_EMPTY 0x20

#define PIC1 0x20
#define PIC2 0xa0
#define PIT 0x40
#define PIT_HZ 1193182

/* Where the BIOS puts q35's power management registers (ACPI 6.5, sections 4.8.3.1 and 4.8.3.2). */
#define PM1_STATUS 0x600
#define PM1_ENABLE 0x602
#define POWER_BUTTON 0x100
#define PM1_CONTROL 0x604
#define SLEEP_ENABLE 0x2000 /* with sleep type 0, which is off here */

static void print_char(char c)
{
	while (!(in8(LINE_STATUS) & TRANSMIT_EMPTY))
		;
	out8(COM1, c);
}

void print(const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			print_char('\r');
		print_char(*text);
	}
}

void print_number(uint32_t n)
{
	if (n >= 10)
		print_number(n / 10);
	print_char('0' + n % 10);
}

/* gate is an entry of the interrupt descriptor table. */
struct gate {
	uint16_t low, selector, kind, high;
};

static struct gate table[0x28];
void on_tick(void);

void start_ticks(void)
{
	struct {
		uint16_t limit;
		const struct gate *base;
	} __attribute__((packed)) pointer = {sizeof table - 1, table};
	uint32_t handler = (uint32_t)on_tick;

	/* All lines of the first controller lead to one handler: only the timer's is open, but
	   the last is also what the controller answers when an interrupt vanishes. */
	for (int i = 0x20; i < 0x28; i++)
		table[i] = (struct gate){handler, 0x08, 0x8e00, handler >> 16};
	__asm__ volatile("lidt %0" : : "m"(pointer));

	/* Vectors from 0x20, clear of the processor's own exceptions. */
	out8(PIC1, 0x11), out8(PIC2, 0x11);
	out8(PIC1 + 1, 0x20), out8(PIC2 + 1, 0x28);
	out8(PIC1 + 1, 0x04), out8(PIC2 + 1, 0x02);
	out8(PIC1 + 1, 0x01), out8(PIC2 + 1, 0x01);
	out8(PIC1 + 1, 0xfe), out8(PIC2 + 1, 0xff);

	out8(PIT + 3, 0x34);
	out8(PIT, (PIT_HZ / TICKS) & 0xff);
	out8(PIT, (PIT_HZ / TICKS) >> 8);
}

void tick(void) { __asm__ volatile("sti; hlt; cli" : : : "memory"); }

void halt(void)
{
	for (;;)
		__asm__ volatile("cli; hlt");
}

void fail(const char *why)
{
	print("program: ");
	print(why);
	print("\n");
	halt();
}

void open_button(void) { out16(PM1_ENABLE, POWER_BUTTON); }

int pressed(void) { return in16(PM1_STATUS) & POWER_BUTTON; }

void power_off(void)
{
	out16(PM1_CONTROL, SLEEP_ENABLE);
	halt();
}

/* The machine below the modes: I/O ports, the serial port, time and power, as
   QEMU's q35 and its BIOS set them up. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdint.h>

/* TICKS is how many ticks a second has. */
#define TICKS 20

static inline void out8(uint16_t port, uint8_t v) { __asm__ volatile("outb %0, %1" : : "a"(v), "Nd"(port)); }
static inline void out16(uint16_t port, uint16_t v) { __asm__ volatile("outw %0, %1" : : "a"(v), "Nd"(port)); }
static inline void out32(uint16_t port, uint32_t v) { __asm__ volatile("outl %0, %1" : : "a"(v), "Nd"(port)); }

static inline uint8_t in8(uint16_t port)
{
	uint8_t v;
	__asm__ volatile("inb %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}

static inline uint16_t in16(uint16_t port)
{
	uint16_t v;
	__asm__ volatile("inw %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}

static inline uint32_t in32(uint16_t port)
{
	uint32_t v;
	__asm__ volatile("inl %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}

/* barrier keeps the compiler from moving memory accesses across it; x86 itself
   keeps stores in order, which is all a virtqueue asks for. */
static inline void barrier(void) { __asm__ volatile("" : : : "memory"); }

/* print writes text to the first serial port. */
void print(const char *text);

/* print_number writes n in decimal. */
void print_number(uint32_t n);

/* start_ticks lets the timer interrupt TICKS times a second. */
void start_ticks(void);

/* tick sleeps until the next timer interrupt. */
void tick(void);

/* halt stops the processor for good. */
void halt(void) __attribute__((noreturn));

/* fail prints why nothing can go on, then halts. */
void fail(const char *why) __attribute__((noreturn));

/* open_button lets the power button be seen from now on. */
void open_button(void);

/* pressed tells whether the power button was pressed. */
int pressed(void);

/* power_off turns the machine off. */
void power_off(void) __attribute__((noreturn));

#endif

/* Where the boot sector goes: says which mode this is, and does it. */
#include "machine.h"
#include "modes.h"

#define OFF_SECONDS 3

/* off dies some seconds after each start. */
static void __attribute__((noreturn)) off(void)
{
	start_ticks();
	for (int i = 0; i < OFF_SECONDS * TICKS; i++)
		tick();
	print("program: power off\n");
	power_off();
}

/* button dies when the power button is pressed. */
static void __attribute__((noreturn)) button(void)
{
	start_ticks();
	while (!pressed())
		tick();
	print("program: power off\n");
	power_off();
}

void run(void)
{
	switch (MODE) {
	case MODE_IDLE:
		print("program: idle\n");
		halt();
	case MODE_FILL:
		print("program: fill\n");
		fill();
	case MODE_AGENT:
		print("program: agent\n");
		agent();
	case MODE_OFF:
		print("program: off\n");
		off();
	case MODE_BUTTON:
		open_button(); /* first: who reads the line may press at once */
		print("program: button\n");
		button();
	}
	fail("no such mode");
}

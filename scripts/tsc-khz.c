// SPDX-License-Identifier: GPL-2.0
//
// Print the rate of this machine's time stamp counter in kHz, which is that of an
// emulated processor too.

#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct sample {
	uint64_t ns;
	uint64_t ticks;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

// Both clocks at once: of some tries the one that was least disturbed.
static struct sample sample(void)
{
	struct sample best = { 0 };
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 100; i++) {
		uint64_t before = now();
		uint64_t ticks = __rdtsc();
		uint64_t took = now() - before;

		if (took < least) {
			least = took;
			best = (struct sample){ before + took / 2, ticks };
		}
	}
	return best;
}

int main(void)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	struct sample first = sample();

	nanosleep(&pause, NULL);

	struct sample last = sample();

	printf("%.0f\n", (last.ticks - first.ticks) * 1e6 / (last.ns - first.ns));
	return 0;
}

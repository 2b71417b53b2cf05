// Threads of a kernel as fibers: what a kernel that was made a C++ function asks of the scheduler in driver.cpp.
#pragma once

#include <cstdint>

namespace shim {

struct Index { uint32_t x, y, z; };

// Set by the scheduler before a fiber runs on. One for all: the driver's lock is held while a grid runs.
struct State {
    Index thread, block, threads, blocks;
    uint8_t* shared;
    uint32_t waited;  // threads of the block that have waited for the kernel ahead
};
extern State state;
// The address of the first byte of shared memory; an offset of 0 is a fault.
constexpr uint32_t kSharedBase = 1024;

// Fails the launch, as a device would for an access that is not aligned to its size.
void fault(const char* why);
void block_barrier();
// Hands `give` words to the warp and returns once every lane has; `given[lane]` is what that lane gave. `what` must
// be the same in all lanes. A second exchange may begin at once.
struct Exchange { const uint32_t (*given)[8]; const float (*product)[4]; const float (*wide)[256]; };
Exchange exchange(char what, const uint32_t* give, int n);
struct Register { Register(const char* name, uint32_t bytes, uint32_t max_threads, void (*run)(const void*)); };

}  // namespace shim

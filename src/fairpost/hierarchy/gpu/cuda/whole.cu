// Families of leaves projected without a threshold, by size: whole numbers. (lanes, leaves a lane, runs side by side, blocks of
// threads that a multiprocessor shall hold)
#define FAMILIES(L, P, U, BLOCKS) \
    extern "C" __global__ void __launch_bounds__(128, BLOCKS) leaves_##L##_##P(SIGNATURE) { \
        whole_leaves<Lanes<TEAM(L)>, TEAM(L), P * L / TEAM(L), U>(Lanes<TEAM(L)>(), s, noise, which, count, seed, first_run); \
    }
FAMILIES(4, 2, 2, 8)
FAMILIES(4, 4, 2, 5)
FAMILIES(4, 6, 2, 4)
FAMILIES(8, 4, 2, 4)
FAMILIES(8, 6, 2, 4)
FAMILIES(16, 4, 2, 4)
FAMILIES(16, 6, 2, 4)
FAMILIES(32, 4, 2, 4)
FAMILIES(32, 6, 2, 4)
FAMILIES(32, 8, 2, 3)
// A block of 128 threads a family.
#define CROWDS(L, P, U, BLOCKS) \
    extern "C" __global__ void __launch_bounds__(128, BLOCKS) crowd_##L##_##P(SIGNATURE) { \
        __shared__ double shared[64]; \
        whole_leaves<Whole, TEAM(L), P * L / TEAM(L), U>(Whole(shared), s, noise, which, count, seed, first_run); \
    }
CROWDS(128, 4, 2, 4)
CROWDS(128, 8, 1, 3)

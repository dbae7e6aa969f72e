// Families of leaves with a threshold, by size.
#define FAMILIES(L, P, BLOCKS) \
    extern "C" __global__ void __launch_bounds__(128, BLOCKS) leaves_##L##_##P(SIGNATURE) { \
        leaves<TEAM(L), P * L / TEAM(L), false>(GIVEN); \
    }
FAMILIES(4, 2, 5)
FAMILIES(4, 4, 4)
FAMILIES(4, 6, 3)
FAMILIES(8, 4, 4)
FAMILIES(8, 6, 3)
FAMILIES(16, 4, 4)
FAMILIES(16, 6, 3)
FAMILIES(32, 4, 4)
FAMILIES(32, 6, 3)
FAMILIES(32, 8, 2)

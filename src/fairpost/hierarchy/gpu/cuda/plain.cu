// Families of leaves projected without a threshold, by size.
#define FAMILIES(L, P, BLOCKS) \
    extern "C" __global__ void __launch_bounds__(128, BLOCKS) leaves_##L##_##P(SIGNATURE) { \
        leaves<TEAM(L), P * L / TEAM(L), true>(GIVEN); \
    }
FAMILIES(4, 2, 6)
FAMILIES(4, 4, 5)
FAMILIES(4, 6, 4)
FAMILIES(8, 4, 5)
FAMILIES(8, 6, 4)
FAMILIES(16, 4, 5)
FAMILIES(16, 6, 4)
FAMILIES(32, 4, 5)
FAMILIES(32, 6, 4)
FAMILIES(32, 8, 3)

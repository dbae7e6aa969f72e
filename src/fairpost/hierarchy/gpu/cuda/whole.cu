// Families of leaves projected without a threshold, where noise and counts are whole numbers: measurements and their sums are
// ints (the host has seen that they fit), a sum is exact in any order, y > m is y > floor m, and 1/K is looked up. U runs go
// side by side, so that one searches while the other waits.
#define ABSENT (-(1 << 30))

template <class T, int L, int P, int U>
DEVICE void whole_leaves(const T& team, SIGNATURE) {
    const Leaves& s = *leaves_;
    const Noise& law = *noise;
    NEARER(law)
    __shared__ double one_over[L * P + 1];
    TOGETHER(k, L * P + 1) one_over[k] = 1.0 / (double)(k > 0 ? k : 1);
    __syncthreads();
    long long g = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / L;
    if (g >= count) return;
    long long p = which[g], node = s.child[s.first + p];
    int n = (int)(s.child[s.first + p + 1] - node), lead = (int)(node & 1), place = 2 * team.rank() - lead;
    u32 block = (u32)(node >> 1) + team.rank();
    double m = s.m[s.first + p], R[P], RR[P], EE[P];
    int x[P];
    float chance[P];
    const double *truth = s.x + (node - s.inner), *V = s.V + p, *lin = s.lin + p;
    const double* plane = s.planes + (node - s.inner);
    const long long stride = s.stride;
    const int runs = s.runs, blocks = s.blocks;
#pragma unroll
    for (int k = 0; k < P; k++) {
        int i = place + 2 * L * (k / 2) + (k & 1);
        bool mine = i >= 0 && i < n;
        x[k] = mine ? (int)truth[i] : ABSENT;
        chance[k] = mine ? s.P[node - s.inner + i] : 0.0f;
        R[k] = 0.0;
        RR[k] = mine ? plane[s.n + i] : 0.0;
        EE[k] = mine ? plane[2 * s.n + i] : 0.0;
    }
    double share = one_over[n];
    for (int b = 0; b < blocks; b++) {
        for (int t = b * runs; t < (b + 1) * runs; t += U) {
            int y[U][P], total[U], before[U];
            double target[U], q[U], start[U], M[U];
            bool open[U], lost[U], none[U];
#pragma unroll
            for (int u = 0; u < U; u++) {
                int run = t + u < (b + 1) * runs ? t + u : t;  // after the last run of a block: once more, and not counted
                total[u] = 0;
#pragma unroll
                for (int k = 0; k < P; k += 2) {
#if GUIDED
                    Words w = philox(block + L * (k / 2), 0, first_run + run, seed);
                    int first = by_guide(w.a, guide, cuts), second = by_guide(w.b, guide, cuts);
#else
                    Two both = draw_pair(law, block + L * (k / 2), first_run + run, seed);
                    int first = (int)both.a, second = (int)both.b;
#endif
                    y[u][k] = x[k] == ABSENT ? ABSENT : x[k] + first;
                    y[u][k + 1] = x[k + 1] == ABSENT ? ABSENT : x[k + 1] + second;
                    total[u] += (x[k] == ABSENT ? 0 : y[u][k]) + (x[k + 1] == ABSENT ? 0 : y[u][k + 1]);
                }
                target[u] = V[run * stride];
                q[u] = lin[run * stride];
            }
#pragma unroll
            for (int u = 0; u < U; u++) total[u] = team.sum(total[u]);
#pragma unroll
            for (int u = 0; u < U; u++) {
                q[u] = ((double)total[u] - q[u]) * share;
                start[u] = ((double)total[u] - target[u]) * share;
                M[u] = m == INFINITE ? start[u] : m + q[u];
                open[u] = target[u] > 0.0;
                none[u] = !open[u];
                lost[u] = false;
                before[u] = -1;
            }
            for (int step = 0; step < 1000; step++) {
                int above[U], many[U];
                bool more = false;
#pragma unroll
                for (int u = 0; u < U; u++) {
                    int floor_m = __double2int_rd(M[u]);
                    above[u] = many[u] = 0;
#pragma unroll
                    for (int k = 0; k < P; k++) {
                        bool over = y[u][k] > floor_m;
                        above[u] += over ? y[u][k] : 0;
                        many[u] += over;
                    }
                }
#pragma unroll
                for (int u = 0; u < U; u++) above[u] = team.sum(above[u]), many[u] = team.sum(many[u]);
#pragma unroll
                for (int u = 0; u < U; u++) {
                    if (!open[u]) continue;
                    if (many[u] == 0) {
                        lost[u] = before[u] >= 0 || M[u] == start[u];
                        open[u] = !lost[u];
                        M[u] = start[u];
                    } else {
                        double next = ((double)above[u] - target[u]) * one_over[many[u]];
                        open[u] = !(many[u] == before[u] || (before[u] >= 0 && next <= M[u]));
                        M[u] = next;
                        before[u] = many[u];
                    }
                    more = more || open[u];
                }
                if (!more) break;
            }
#pragma unroll
            for (int u = 0; u < U; u++) {
                if (t + u >= (b + 1) * runs) break;
                int at = -1;
                if (lost[u]) {
                    double largest = -INFINITE, first = INFINITE;
#pragma unroll
                    for (int k = 0; k < P; k++) largest = most_of(largest, (double)y[u][k]);
                    largest = team.most(largest);
#pragma unroll
                    for (int k = 0; k < P; k++)
                        if ((double)y[u][k] == largest) first = least_of(first, (double)(place + 2 * L * (k / 2) + (k & 1)));
                    at = (int)team.least(first);
                }
#pragma unroll
                for (int k = 0; k < P; k++) {
                    int true_x = x[k];
                    float chance_k = chance[k];
                    FRESH_INT(true_x);
                    FRESH_FLOAT(chance_k);
                    double value = (double)y[u][k], d = value - M[u], over_m = value - m;
                    double v = d > 0.0 && !none[u] && !lost[u] ? d : 0.0;
                    if (lost[u] && at == place + 2 * L * (k / 2) + (k & 1)) v = target[u];
                    double r = m == INFINITE ? v : v - (over_m > 0.0 ? over_m : 0.0) + (double)chance_k * q[u];
                    double e = true_x == ABSENT ? 0.0 : v - (double)true_x;
                    R[k] += r;  // an absent place has r = 0: its v, its chance and (y - m)_+ are 0
                    RR[k] = fma(r, r, RR[k]);
                    EE[k] = fma(e, e, EE[k]);
#if EXTRA
                    if (s.whole) {
                        double f = v - floor(v);
                        EE[k] += f * (1.0 - f);
                    }
                    if (s.kept != 0 && x[k] != ABSENT) {
                        long long i = node - s.inner + place + 2 * L * (k / 2) + (k & 1);
                        s.kept[(2LL * (t + u)) * s.n + i] = r;
                        s.kept[(2LL * (t + u) + 1) * s.n + i] = e;
                    }
#endif
                }
            }
        }
        const Leaves* again = leaves_;
        FRESH_LONG(again);
        double *sums = again->sums + b * again->n + (node - again->inner), *total_of_r = again->planes + (node - again->inner);
#pragma unroll
        for (int k = 0; k < P; k++) {
            int i = place + 2 * L * (k / 2) + (k & 1);
            if (x[k] != ABSENT) sums[i] = R[k], total_of_r[i] += R[k];
            R[k] = 0.0;
        }
    }
    const Leaves* last = leaves_;
    FRESH_LONG(last);
    double *squares = last->planes + last->n + (node - last->inner), *errors_ = squares + last->n;
#pragma unroll
    for (int k = 0; k < P; k++) {
        int i = place + 2 * L * (k / 2) + (k & 1);
        if (x[k] != ABSENT) squares[i] = RR[k], errors_[i] = EE[k];
    }
}

// By size: lanes, leaves a lane, runs side by side, blocks of threads that a multiprocessor shall hold.
#define FAMILIES(L, P, U, BLOCKS) \
    extern "C" __global__ void __launch_bounds__(128, BLOCKS) leaves_##L##_##P(SIGNATURE) { \
        whole_leaves<Lanes<TEAM(L)>, TEAM(L), P * L / TEAM(L), U>(Lanes<TEAM(L)>(), GIVEN); \
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
        whole_leaves<Whole, TEAM(L), P * L / TEAM(L), U>(Whole(shared), GIVEN); \
    }
CROWDS(128, 4, 2, 4)
CROWDS(128, 8, 1, 3)

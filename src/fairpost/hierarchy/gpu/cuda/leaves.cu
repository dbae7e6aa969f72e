// Leaves: a family a team, its children in registers, the runs of some blocks in a loop, so that counts are read once and sums are
// written once. Teams have 4 to 32 lanes, and a lane 2 to 8 leaves, in pairs that share a block of noise words; a family too large
// for that has a block of threads and its measurements in memory. EXTRA: rounding, or areas that are followed run by run.

#define SIGNATURE const Leaves *leaves_, const Noise *noise, const int *which, long long count, u64 seed, u64 first_run
#define GIVEN leaves_, noise, which, count, seed, first_run

struct Leaves {
    long long n, inner;  // leaves, and the nodes above them: leaf i is node inner + i
    long long parents, first;  // how many parents of leaves there are, and the first of them
    int whole, blocks, runs, spare;  // blocks of so many runs
    double tau, steep;
    const long long* child;
    const double *x, *offset, *m;
    const float* P;
    const double *V, *lin;  // of the parents, a row a run, `stride` long
    long long stride;
    double* planes;  // sums of r, r^2, e^2
    double* sums;    // sums of r over each block, a row a block
    double* kept;    // r and e of each run, two rows a run; or nothing
};

// r and e of one leaf.
DEVICE void errors(const Leaves& s, double y, double x, float P, double v, double m, double q, double& r, double& e) {
    double b = y - m, known = s.steep == 1.0 ? (b > 0.0 ? b : 0.0) : ramp_of(b, s.tau, s.steep);
    r = m == INFINITE ? v : v - known + (double)P * q;
    e = v - x;
}

DEVICE double squared(const Leaves& s, double v, double e, double EE) {
    EE = fma(e, e, EE);
#if EXTRA
    if (s.whole) {
        double f = v - floor(v);
        EE += f * (1.0 - f);
    }
#endif
    return EE;
}

// A pair of leaves' noise; `guide` and `cuts` are nearer copies of the law's tables.
DEVICE Two leaf_pair(const Noise& law, const unsigned char* guide, const double* cuts, u32 block, u64 run, u64 seed) {
#if GUIDED
    Words w = philox(block, 0, run, seed);
    Two out;
    out.a = (double)by_guide(w.a, guide, cuts);
    out.b = (double)by_guide(w.b, guide, cuts);
    return out;
#else
    return draw_pair(law, block, run, seed);
#endif
}

#if GUIDED
#define NEARER(law) \
    __shared__ u32 guide_words[BINS / 4]; \
    __shared__ double cuts[CUTS]; \
    const unsigned char* guide = (const unsigned char*)guide_words; \
    TOGETHER(k, BINS / 4) guide_words[k] = ((const u32*)law.guide)[k]; \
    TOGETHER(k, CUTS) cuts[k] = law.cuts[k]; \
    __syncthreads();
#else
#define NEARER(law) \
    const unsigned char* guide = law.guide; \
    const double* cuts = law.cuts;
#endif

template <int L, int P, bool PLAIN>
DEVICE void leaves(SIGNATURE) {
    const Leaves s = *leaves_;
    const Noise law = *noise;
    NEARER(law)
    long long g = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / L;
    if (g >= count) return;
    Lanes<L> team;
    long long p = which[g], node = s.child[s.first + p], n = s.child[s.first + p + 1] - node, even = node & ~1LL;
    double m = s.m[s.first + p], R[P], RR[P], EE[P], x[P];
    float chance[P];
#pragma unroll
    for (int k = 0; k < P; k++) {
        long long i = even + 2 * (team.rank() + L * (k / 2)) + (k & 1) - node;  // the place in the family
        bool mine = i >= 0 && i < n;
        x[k] = mine ? s.x[node - s.inner + i] : -INFINITE;
        chance[k] = mine ? s.P[node - s.inner + i] : 0.0f;
        R[k] = 0.0;
        RR[k] = mine ? s.planes[s.n + node - s.inner + i] : 0.0;
        EE[k] = mine ? s.planes[2 * s.n + node - s.inner + i] : 0.0;
    }
    for (int b = 0; b < s.blocks; b++) {
        for (int t = b * s.runs; t < (b + 1) * s.runs; t++) {
            double y[P], total = 0.0;
#pragma unroll
            for (int k = 0; k < P; k += 2) {
                Two both = leaf_pair(law, guide, cuts, (u32)((even >> 1) + team.rank() + L * (k / 2)), first_run + t, seed);
                y[k] = x[k] + both.a;
                y[k + 1] = x[k + 1] + both.b;
                total += (x[k] > -INFINITE ? y[k] : 0.0) + (x[k + 1] > -INFINITE ? y[k + 1] : 0.0);
            }
            total = team.sum(total);
            double target = s.V[t * s.stride + p], straight = s.lin[t * s.stride + p];
            double q = (total - straight) / (double)n, start = (total - target) / (double)n;
            auto each = [&](auto f) {
#pragma unroll
                for (int k = 0; k < P; k++) f(y[k], s.tau);
            };
            double M = INFINITE;
            Kept kept;
            kept.r = kept.cut = kept.at = INFINITE;
            kept.part = 0.0;
            bool lost = false;
            if (target > 0.0) {
                if (PLAIN) {
                    M = root_above(team, each, target, m == INFINITE ? start : m + q, start);
                    lost = M == INFINITE;
                } else kept = root_kept(team, each, s.steep, target, start);
            }
            double largest = 0.0, place = 0.0;
            if (PLAIN && lost) {
                largest = -INFINITE;
#pragma unroll
                for (int k = 0; k < P; k++) largest = most_of(largest, y[k]);
                largest = team.most(largest);
                place = INFINITE;
#pragma unroll
                for (int k = P - 1; k >= 0; k--)
                    if (y[k] == largest) place = least_of(place, 2.0 * (team.rank() + L * (k / 2)) + (k & 1));
                place = team.least(place);
            }
#pragma unroll
            for (int k = 0; k < P; k++) {
                double v;
                if (PLAIN) {
                    v = y[k] > M ? y[k] - M : 0.0;
                    if (lost && place == 2.0 * (team.rank() + L * (k / 2)) + (k & 1)) v = target;
                } else v = kept.r == INFINITE ? 0.0 : kept_of(y[k], s.tau, s.steep, kept);
                bool mine = x[k] > -INFINITE;
                double r, e;
                errors(s, y[k], x[k], chance[k], v, m, q, r, e);
                r = mine ? r : 0.0;
                e = mine ? e : 0.0;
                R[k] += r;
                RR[k] = fma(r, r, RR[k]);
                EE[k] = squared(s, v, e, EE[k]);
#if EXTRA
                if (s.kept != 0 && mine) {
                    long long i = even + 2 * (team.rank() + L * (k / 2)) + (k & 1) - s.inner;
                    s.kept[(2LL * t) * s.n + i] = r;
                    s.kept[(2LL * t + 1) * s.n + i] = e;
                }
#endif
            }
        }
#pragma unroll
        for (int k = 0; k < P; k++) {
            long long i = even + 2 * (team.rank() + L * (k / 2)) + (k & 1) - s.inner;
            if (x[k] > -INFINITE) s.sums[b * s.n + i] = R[k], s.planes[i] += R[k];
            R[k] = 0.0;
        }
    }
#pragma unroll
    for (int k = 0; k < P; k++) {
        long long i = even + 2 * (team.rank() + L * (k / 2)) + (k & 1) - s.inner;
        if (x[k] > -INFINITE) {
            s.planes[s.n + i] = RR[k];
            s.planes[2 * s.n + i] = EE[k];
        }
    }
}

// Only children have what their parents have: no noise of their own counts.
extern "C" __global__ void only_children(SIGNATURE) {
    long long g = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (g >= count) return;
    const Leaves s = *leaves_;
    long long p = which[g], i = s.child[s.first + p] - s.inner;
    double x = s.x[i], offset = s.offset[i], all = s.planes[i], RR = s.planes[s.n + i], EE = s.planes[2 * s.n + i];
    for (int b = 0; b < s.blocks; b++) {
        double R = 0.0;
        for (int t = b * s.runs; t < (b + 1) * s.runs; t++) {
            double v = s.V[t * s.stride + p], r = v - s.lin[t * s.stride + p] - offset, e = v - x;
            R += r;
            RR = fma(r, r, RR);
            EE = squared(s, v, e, EE);
            if (s.kept != 0) s.kept[(2LL * t) * s.n + i] = r, s.kept[(2LL * t + 1) * s.n + i] = e;
        }
        s.sums[b * s.n + i] = R;
        all += R;
    }
    s.planes[i] = all;
    s.planes[s.n + i] = RR;
    s.planes[2 * s.n + i] = EE;
}

// A large family: a block of threads, measurements and outputs in memory (2 n doubles of `room`), sums in place.
extern "C" __global__ void large_family(SIGNATURE, double* room) {
    __shared__ double shared[64];
    const Leaves s = *leaves_;
    const Noise law = *noise;
    Whole team(shared);
    long long p = which[blockIdx.x], node = s.child[s.first + p], n = s.child[s.first + p + 1] - node, low = node - s.inner;
    double m = s.m[s.first + p], *y = room + 2 * low, *v = y + n;
    for (int b = 0; b < s.blocks; b++) {
        for (long long i = team.rank(); i < n; i += team.size()) s.sums[b * s.n + low + i] = 0.0;
        for (int t = b * s.runs; t < (b + 1) * s.runs; t++) {
            double total = 0.0;
            for (long long i = team.rank(); i < n; i += team.size()) {
                y[i] = s.x[low + i] + draw_one(law, node + i, first_run + t, seed);
                total += y[i];
            }
            total = team.sum(total);
            double target = s.V[t * s.stride + p], q = (total - s.lin[t * s.stride + p]) / (double)n;
            family(team, y, n, total, target, s.tau, s.steep, v);
            for (long long i = team.rank(); i < n; i += team.size()) {
                double r, e;
                errors(s, y[i], s.x[low + i], s.P[low + i], v[i], m, q, r, e);
                s.sums[b * s.n + low + i] += r;
                s.planes[s.n + low + i] = fma(r, r, s.planes[s.n + low + i]);
                s.planes[2 * s.n + low + i] = squared(s, v[i], e, s.planes[2 * s.n + low + i]);
                if (s.kept != 0) s.kept[(2LL * t) * s.n + low + i] = r, s.kept[(2LL * t + 1) * s.n + low + i] = e;
            }
        }
        for (long long i = team.rank(); i < n; i += team.size()) s.planes[low + i] += s.sums[b * s.n + low + i];
    }
}

// What pooling needs of the leaves: the sum of the measurements of each family, into row t of S.
template <int L>
DEVICE void leaf_totals(SIGNATURE, int runs, double* S) {
    long long g = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / L;
    if (g >= count) return;
    const Leaves s = *leaves_;
    const Noise law = *noise;
    Lanes<L> team;
    long long p = which[g], node = s.child[s.first + p], end = s.child[s.first + p + 1];
    for (int t = 0; t < runs; t++) {
        double total = 0.0;
        for (long long j = (node >> 1) + team.rank(); 2 * j < end; j += L) {
            Two both = draw_pair(law, (u32)j, first_run + t, seed);
            if (2 * j >= node) total += s.x[2 * j - s.inner] + both.a;
            if (2 * j + 1 < end) total += s.x[2 * j + 1 - s.inner] + both.b;
        }
        total = team.sum(total);
        if (team.rank() == 0) S[t * s.stride + p] = total;
    }
}

// Sums of some values by class: chunk c adds values[order[from[c]] ... order[from[c + 1] - 1]] of each row, always in one order.
extern "C" __global__ void add_chunks(const double* values, long long stride, const int* order, const int* from, int chunks, double* out) {
    __shared__ double shared[64];
    Whole team(shared);
    const double* row = values + blockIdx.y * stride;
    double total = 0.0;
    for (int i = from[blockIdx.x] + team.rank(); i < from[blockIdx.x + 1]; i += team.size()) total += row[order[i]];
    total = team.sum(total);
    if (team.rank() == 0) out[(long long)blockIdx.y * chunks + blockIdx.x] = total;
}

extern "C" __global__ void leaf_totals_4(SIGNATURE, int runs, double* S) { leaf_totals<TEAM(4)>(GIVEN, runs, S); }
extern "C" __global__ void leaf_totals_32(SIGNATURE, int runs, double* S) { leaf_totals<TEAM(32)>(GIVEN, runs, S); }

// Nodes above the leaves: measurements, levels from the top down (each family alone, or pooled), sums over runs.
//
// Arrays of inner nodes have one row a run, `inner` long. What is computed is that of hierarchy/kernels (`upper`, `rules`,
// `families`). A team of lanes has one family of one run; families of a level do not wait for each other.

struct Tree {
    long long inner;
    int top, whole;      // the deepest exact level (-1: not even the root); rounding
    long long known;     // nodes down to that level
    const long long* child;
    const int* level;    // of every inner node
    const double *x, *offset, *m, *V, *W, *s2;
    const float* P;
};

// The share of a family that a team works on, in memory: f(z, t) for each.
template <class T, class F> DEVICE void over(const T& team, const double* z, long long n, double t, F f) {
    for (long long i = team.rank(); i < n; i += team.size()) f(z[i], t);
}

// All of a target that is lost in rounding to the first of the largest.
template <class T> DEVICE void to_the_largest(const T& team, const double* y, long long n, double target, double* v) {
    double top = -INFINITE;
    for (long long i = team.rank(); i < n; i += team.size()) top = most_of(top, y[i]);
    top = team.most(top);
    double first = INFINITE;
    for (long long i = team.rank(); i < n; i += team.size())
        if (y[i] == top) first = least_of(first, (double)i);
    first = team.least(first);
    for (long long i = team.rank(); i < n; i += team.size()) v[i] = (double)i == first ? target : 0.0;
}

// One family of equal variances in memory: the projection, with a threshold where steep > 1.
template <class T>
DEVICE void family(const T& team, const double* y, long long n, double total, double target, double tau, double steep, double* v) {
    if (n == 1 || target <= 0.0) {
        for (long long i = team.rank(); i < n; i += team.size()) v[i] = n == 1 ? target : 0.0;
        return;
    }
    double start = (total - target) / (double)n;
    auto each = [&](auto f) { over(team, y, n, tau, f); };
    if (steep == 1.0) {
        double M = root_above(team, each, target, start, start);
        if (M == INFINITE) {
            to_the_largest(team, y, n, target, v);
            return;
        }
        for (long long i = team.rank(); i < n; i += team.size()) v[i] = y[i] > M ? y[i] - M : 0.0;
        return;
    }
    Kept k = root_kept(team, each, steep, target, start);
    for (long long i = team.rank(); i < n; i += team.size()) v[i] = kept_of(y[i], tau, steep, k);
}

// Unequal variances: v = (z - m V)_+, Newton steps with the sum of V above.
template <class T>
DEVICE void weighted(const T& team, const double* z, const double* V, long long n, double total, double weight, double target, double* v) {
    double m = (total - target) / weight;
    int before = -1;
    for (int step = 0; step < 1000; step++) {
        double a = 0.0, b = 0.0;
        int count = 0;
        for (long long i = team.rank(); i < n; i += team.size())
            if (z[i] > m * V[i]) a += z[i], b += V[i], count++;
        a = team.sum(a);
        b = team.sum(b);
        count = team.sum(count);
        if (count == 0 || b == 0.0) {
            to_the_largest(team, z, n, target, v);
            return;
        }
        double next = (a - target) / b;
        bool done = count == before || (before >= 0 && next <= m);
        m = next;
        before = count;
        if (done) break;
    }
    for (long long i = team.rank(); i < n; i += team.size()) {
        double d = z[i] - m * V[i];
        v[i] = d > 0.0 ? d : 0.0;
    }
}

template <class T>
DEVICE double ramp_sum(const T& team, const double* z, const double* V, long long n, double m, double tau, double steep) {
    double s = 0.0;
    for (long long i = team.rank(); i < n; i += team.size()) s += ramp_of(z[i] - m * V[i], tau, steep);
    return team.sum(s);
}

// The threshold with unequal variances: exact where nothing is clipped, else bisection on m, then a settlement.
template <class T>
DEVICE void weighted_ramp(
    const T& team, const double* z, const double* V, long long n, double total, double weight, double target, double tau,
    double steep, double* v
) {
    double m = (total - target) / weight, widest = 0.0, least = INFINITE;
    double edge = steep == INFINITE ? tau : tau * steep / (steep - 1.0);
    for (long long i = team.rank(); i < n; i += team.size()) {
        widest = most_of(widest, V[i]);
        v[i] = z[i] - m * V[i];
        least = least_of(least, v[i]);
    }
    widest = team.most(widest);
    if (team.least(least) > edge) return;
    double step = (fabs(total) + target + edge * (double)n) / weight + edge / widest, low = m - step, high = m + step;
    while (ramp_sum(team, z, V, n, low, tau, steep) < target) low -= step, step *= 2.0;
    while (ramp_sum(team, z, V, n, high, tau, steep) > target) high += step, step *= 2.0;
    for (int k = 0; k < 200; k++) {
        double mid = 0.5 * (low + high);
        if (mid <= low || mid >= high) break;
        if (ramp_sum(team, z, V, n, mid, tau, steep) > target) low = mid;
        else high = mid;
    }
    double held = 0.0, more = 0.0;
    for (long long i = team.rank(); i < n; i += team.size()) {
        v[i] = ramp_of(z[i] - high * V[i], tau, steep);
        held += v[i];
        more += ramp_of(z[i] - low * V[i], tau, steep) - v[i];
    }
    held = team.sum(held);
    more = team.sum(more);
    double part = more > 0.0 ? (target - held) / more : 0.0;
    for (long long i = team.rank(); i < n; i += team.size()) v[i] += part * (ramp_of(z[i] - low * V[i], tau, steep) - v[i]);
}

// Measurements of all inner nodes, a row a run; known nodes are their own.
extern "C" __global__ void measure(const Tree* tree, const Noise* laws, u64 seed, u64 first, int runs, double* y) {
    long long inner = tree->inner;
    for (long long t = blockIdx.y; t < runs; t += gridDim.y) {
        long long j = (long long)blockIdx.x * blockDim.x + threadIdx.x, i = 2 * j;
        if (i >= inner) continue;
        const Noise& law = laws[tree->level[i]];
        Two both = draw_pair(law, (u32)j, first + t, seed);
        y[t * inner + i] = tree->x[i] + both.a;
        if (i + 1 < inner) {
            const Noise& next = laws[tree->level[i + 1]];
            y[t * inner + i + 1] = tree->x[i + 1] + (next.spread == law.spread ? both.b : draw_one(next, i + 1, first + t, seed));
        }
    }
}

// The nodes from which a run goes down: v and lin of known ones, or of a noisy root; r of these.
extern "C" __global__ void begin(const Tree* tree, int runs, int pooled, const double* y, double* v, double* lin, double* r) {
    long long inner = tree->inner, known = tree->top < 0 ? 1 : tree->known;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= known) return;
    for (long long t = blockIdx.y; t < runs; t += gridDim.y) {
        double value = y[t * inner + i];
        long long at = t * inner + i;
        if (!pooled || i == 0) lin[at] = value;
        v[at] = tree->top < 0 ? (value > 0.0 ? value : 0.0) : value;
        r[at] = tree->top < 0 ? v[at] - value - tree->offset[i] : 0.0;
    }
}

// One level below the parents which[0], ..., each family on its own.
template <int L>
DEVICE void down(
    const Tree* tree, const int* which, long long count, int runs, double tau, double steep, const double* y_all, double* v_all,
    double* lin_all, double* r_all
) {
    long long g = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / L;
    if (g >= count * runs) return;
    Lanes<L> team;
    long long p = which[g % count], row = (g / count) * tree->inner, a = tree->child[p], n = tree->child[p + 1] - a;
    const double* y = y_all + row + a;
    double *v = v_all + row + a, *lin = lin_all + row + a, *r = r_all + row + a;
    double target = v_all[row + p], straight = lin_all[row + p], total = 0.0, m = tree->m[p];
    for (long long i = team.rank(); i < n; i += L) total += y[i];
    total = team.sum(total);
    double q = (total - straight) / (double)n;
    family(team, y, n, total, target, tau, steep, v);
    for (long long i = team.rank(); i < n; i += L) {
        lin[i] = y[i] - q;
        double rest = v[i];
        if (n == 1) rest = target - straight - tree->offset[a + i];
        else if (m != INFINITE) {
            double known = steep == 1.0 ? most_of(y[i] - m, 0.0) : ramp_of(y[i] - m, tau, steep);
            rest = v[i] - known + (double)tree->P[a + i] * q;
        }
        r[i] = rest;
    }
}

// Pooled estimates of one level, upwards: S, the sum over children (`given`: already there), and z.
template <int L>
DEVICE void pool(const Tree* tree, long long first, long long count, int runs, int given, const double* y, double* z, double* S) {
    long long g = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / L;
    if (g >= count * runs) return;
    Lanes<L> team;
    long long p = first + g % count, row = (g / count) * tree->inner;
    double total = 0.0;
    if (!given) {
        for (long long i = tree->child[p] + team.rank(); i < tree->child[p + 1]; i += L) total += z[row + i];
        total = team.sum(total);
    } else total = S[row + p];
    double own = tree->s2[tree->level[p]], W = tree->W[p];
    if (team.rank() == 0) {
        S[row + p] = total;
        z[row + p] = own > 0.0 ? (y[row + p] * W + total * own) / (W + own) : y[row + p];
    }
}

// One level of the pooled estimates downwards: u without clipping, and v where the parents are not known exactly.
template <int L>
DEVICE void pooled_down(
    const Tree* tree, const int* which, long long count, int runs, int clip, double tau, double steep, const double* z_all,
    const double* S, double* v_all, double* u_all
) {
    long long g = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / L;
    if (g >= count * runs) return;
    Lanes<L> team;
    long long p = which[g % count], row = (g / count) * tree->inner, a = tree->child[p], n = tree->child[p + 1] - a;
    const double *z = z_all + row + a, *V = tree->V + a;
    double *v = v_all + row + a, *u = u_all + row + a, W = tree->W[p];
    double share = W > 0.0 ? (u_all[row + p] - S[row + p]) / W : 0.0, target = v_all[row + p], total = 0.0, weight = 0.0;
    for (long long i = team.rank(); i < n; i += L) {
        u[i] = z[i] + V[i] * share;
        total += z[i];
        weight += V[i];
    }
    if (!clip) return;
    total = team.sum(total);
    weight = team.sum(weight);
    if (n == 1 || target <= 0.0 || weight == 0.0) family(team, z, n, total, target, tau, steep, v);
    else if (steep == 1.0) weighted(team, z, V, n, total, weight, target, v);
    else weighted_ramp(team, z, V, n, total, weight, target, tau, steep, v);
}

// The sums over runs of inner nodes, in the order of the runs; pooled: r = v - u.
extern "C" __global__ void add_inner(
    const Tree* tree, int runs, int pooled, const double* v, const double* u, const double* r, double* planes
) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, inner = tree->inner;
    if (i >= inner) return;
    double R = planes[i], RR = planes[inner + i], EE = planes[2 * inner + i], x = tree->x[i];
    for (long long t = 0; t < runs; t++) {
        double value = v[t * inner + i], rest = pooled ? value - u[t * inner + i] : r[t * inner + i], e = value - x;
        R += rest;
        RR += rest * rest;
        EE += e * e;
        if (tree->whole) {
            double f = value - floor(value);
            EE += f * (1.0 - f);
        }
    }
    planes[i] = R, planes[inner + i] = RR, planes[2 * inner + i] = EE;
}

#ifdef EMULATED
#define TEAM(L) 1
#else
#define TEAM(L) L
#endif
#define DOWN const Tree *tree, const int *which, long long count, int runs
#define INSTANCES(L) \
    extern "C" __global__ void down_##L(DOWN, double tau, double steep, const double* y, double* v, double* lin, double* r) { \
        down<TEAM(L)>(tree, which, count, runs, tau, steep, y, v, lin, r); \
    } \
    extern "C" __global__ void pool_##L( \
        const Tree* tree, long long first, long long count, int runs, int given, const double* y, double* z, double* S \
    ) { \
        pool<TEAM(L)>(tree, first, count, runs, given, y, z, S); \
    } \
    extern "C" __global__ void pooled_down_##L( \
        DOWN, int clip, double tau, double steep, const double* z, const double* S, double* v, double* u \
    ) { \
        pooled_down<TEAM(L)>(tree, which, count, runs, clip, tau, steep, z, S, v, u); \
    }
INSTANCES(4)
INSTANCES(32)

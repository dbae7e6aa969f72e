// Teams of threads that add up together, always in the same order, and the searches for a family's one number.
//
// WARP is 32; a check of this source on a processor compiles it with WARP = 1 and one thread a block.

#ifndef WARP
#define WARP 32
#endif
#ifndef ROOM
#define ROOM(name) extern __shared__ double name[]
#endif
// Registers are what teams are short of. A value that has passed through one of these is not known to the compiler any more, so it
// does not keep what follows from it from one run to the next.
#ifdef EMULATED
#define FRESH_INT(a)
#define FRESH_FLOAT(a)
#define FRESH_LONG(a)
#define TOGETHER(k, n) for (int k = 0; k < (n); k++)
#else
#define TOGETHER(k, n) for (int k = threadIdx.x; k < (n); k += blockDim.x)
#define FRESH_INT(a) asm volatile("" : "+r"(a))
#define FRESH_FLOAT(a) asm volatile("" : "+f"(a))
#define FRESH_LONG(a) asm volatile("" : "+l"(a))
#endif
#define INFINITE of_bits(0x7FF0000000000000ull)

DEVICE double least_of(double a, double b) { return a < b ? a : b; }
DEVICE double most_of(double a, double b) { return a > b ? a : b; }

// L lanes of a warp. A butterfly of a + b has the same bits in every lane.
template <int L> struct Lanes {
    u32 mask;
    DEVICE Lanes() { mask = L == 32 ? 0xFFFFFFFFu : (((1u << L) - 1u) << ((threadIdx.x & (WARP - 1)) & ~(L - 1))); }
    DEVICE int rank() const { return threadIdx.x & (L - 1); }
    DEVICE int size() const { return L; }
    DEVICE double sum(double v) const {
#pragma unroll
        for (int o = L / 2; o > 0; o >>= 1) v += __shfl_xor_sync(mask, v, o);
        return v;
    }
    DEVICE int sum(int v) const {
#pragma unroll
        for (int o = L / 2; o > 0; o >>= 1) v += __shfl_xor_sync(mask, v, o);
        return v;
    }
    DEVICE double least(double v) const {
#pragma unroll
        for (int o = L / 2; o > 0; o >>= 1) v = least_of(v, __shfl_xor_sync(mask, v, o));
        return v;
    }
    DEVICE double most(double v) const {
#pragma unroll
        for (int o = L / 2; o > 0; o >>= 1) v = most_of(v, __shfl_xor_sync(mask, v, o));
        return v;
    }
};

// All threads of a block (a power of two); `room` has one double a warp. Sums: a butterfly in each warp, then warp by warp.
struct Whole {
    double* room;
    Lanes<WARP> warp;
    DEVICE Whole(double* shared) : room(shared) {}
    DEVICE int rank() const { return threadIdx.x; }
    DEVICE int size() const { return blockDim.x; }
    template <class F> DEVICE double fold(double v, F join) const {
        int warps = (blockDim.x + WARP - 1) / WARP;
        if ((threadIdx.x & (WARP - 1)) == 0) room[threadIdx.x / WARP] = v;
        __syncthreads();
        double out = room[0];
        for (int k = 1; k < warps; k++) out = join(out, room[k]);
        __syncthreads();
        return out;
    }
    DEVICE double sum(double v) const {
        return fold(warp.sum(v), [](double a, double b) { return a + b; });
    }
    DEVICE int sum(int v) const { return (int)sum((double)v); }
    DEVICE double least(double v) const { return fold(warp.least(v), least_of); }
    DEVICE double most(double v) const { return fold(warp.most(v), most_of); }
};

// A family is seen through `each(f)`: f(z, t) for every entry that this thread holds, t its own threshold.

// sum (z - m)_+ = target: Newton steps on the sum and the number above m (hierarchy/kernels/families.py, `threshold`).
template <class T, class E> DEVICE double root_above(const T& team, E each, double target, double guess, double start) {
    double m = guess;
    int before = -1;
    for (int step = 0; step < 1000; step++) {
        double total = 0.0;
        int count = 0;
        each([&](double z, double) {
            bool above = z > m;
            total += above ? z : 0.0;
            count += above;
        });
        total = team.sum(total);
        count = team.sum(count);
        if (count == 0) {
            if (before >= 0 || m == start) return INFINITE;
            m = start;
            continue;
        }
        double next = (total - target) / count;
        if (count == before || (before >= 0 && next <= m)) return next;
        m = next;
        before = count;
    }
    return m;
}

// min(u, s (u - t)_+); for infinite s, u where it is above t.
DEVICE double ramp_of(double u, double t, double s) {
    if (!(u > t)) return 0.0;
    if (s == INFINITE) return u;
    double ramp = s * (u - t);
    return ramp < u ? ramp : u;
}

// What is kept of z: see rules/kernels/threshold.py. A ramp has r alone; a jump keeps edges z - t above `cut` and gives those
// at `at` the part `part` of their t.
struct Kept {
    double r, cut, at, part;
};

DEVICE double kept_of(double z, double t, double s, const Kept& k) {
    if (s < INFINITE) return ramp_of(z - k.r, t, s);
    double edge = z - t, over = z - k.r;
    if (edge > k.cut) return over > 0.0 ? over : 0.0;
    return edge == k.at ? k.part * t : 0.0;
}

// The ramp: G(r) = sum min(z - r, s (z - r - t)_+) falls and is piecewise linear. Newton steps inside a bracket, a bisection
// now and then; two points with equal numbers on and above the ramp lie in one piece (the sets are nested in r), and a Newton
// step inside its own piece is the root.
template <class T, class E> DEVICE Kept root_ramp(const T& team, E each, double s, double target, double start) {
    double top = -INFINITE, lo = -INFINITE, hi = INFINITE, r = start;
    each([&](double z, double t) { top = most_of(top, z - t); });
    top = team.most(top);
    int full_before = -1, on_before = -1;
    bool newton = false;
    for (int step = 0; step < 400; step++) {
        double g = 0.0;
        int full = 0, on = 0;
        each([&](double z, double t) {
            double u = z - r, steep = s * (u - t);
            bool over = steep >= u;
            if (steep > 0.0) {
                g += over ? u : steep;
                full += over;
                on += !over;
            }
        });
        g = team.sum(g);
        full = team.sum(full);
        on = team.sum(on);
        if (g > target) lo = r;
        else hi = r;
        bool same = newton && full == full_before && on == on_before;
        double next = full + on > 0 ? r + (g - target) / (full + s * on) : top - target;
        newton = full + on > 0;
        if (same || next == r) {
            r = next;
            break;
        }
        if (lo > -INFINITE && hi < INFINITE && (!(next > lo && next < hi) || step % 4 == 3)) {
            next = 0.5 * (lo + hi);
            newton = false;
            if (!(next > lo && next < hi)) {
                r = hi;
                break;
            }
        }
        full_before = full;
        on_before = on;
        r = next;
    }
    Kept k;
    k.r = r;
    k.cut = k.at = INFINITE;
    k.part = 0.0;
    return k;
}

// The jump: G falls by t at every edge z - t. Each look at r sees the edges beside it, `down` <= r < `up`, between which G is a
// line. The bracket lo < hi has G(lo) > C >= G(hi); it closes until the crossing lies in a seen piece, or in the jump of the
// one edge inside the bracket.
template <class T, class E> DEVICE Kept root_jump(const T& team, E each, double target, double start) {
    double lo = -INFINITE, hi = INFINITE, g_lo = 0.0, g_hi = 0.0, up_lo = INFINITE, down_hi = -INFINITE, r = start;
    int k_lo = 0, k_hi = 0;
    Kept out;
    out.at = INFINITE;
    out.part = 0.0;
    for (int step = 0; step < 400; step++) {
        double g = 0.0, up = INFINITE, down = -INFINITE;
        int k = 0;
        each([&](double z, double t) {
            double edge = z - t;
            if (edge > r) {
                g += z - r;
                k++;
                up = least_of(up, edge);
            } else down = most_of(down, edge);
        });
        g = team.sum(g);
        k = team.sum(k);
        up = team.least(up);
        down = team.most(down);
        if (g > target) {
            lo = r, g_lo = g, k_lo = k, up_lo = up;
            if (g - k * (up - r) <= target) {  // in the piece right of r
                out.r = r + (g - target) / k;
                out.cut = r;
                return out;
            }
        } else {
            hi = r, g_hi = g, k_hi = k, down_hi = down;
            if (k > 0 && g + k * (r - down) >= target) {  // left of it
                out.r = r - (target - g) / k;
                out.cut = down;
                return out;
            }
        }
        bool closed = lo > -INFINITE && hi < INFINITE;
        double next = closed ? lo + (hi - lo) * ((g_lo - target) / (g_lo - g_hi)) : 0.0;
        if (closed && (step % 3 == 2 || !(next > lo && next < hi))) next = 0.5 * (lo + hi);
        if (closed && (up_lo >= down_hi || !(next > lo && next < hi))) break;  // one edge inside, or none that doubles tell apart
        if (!closed) next = k == 0 ? down - 1.02 * target : r + 1.02 * ((g - target) / k);
        r = next;
    }
    double w = up_lo, drop = 0.0;
    each([&](double z, double t) { drop += z - t == w ? t : 0.0; });
    drop = team.sum(drop);
    double left = g_hi + k_hi * (hi - w);  // G at the edge, without those that stand there
    out.r = out.cut = out.at = w;
    out.part = drop > 0.0 ? most_of(target - left, 0.0) / drop : 0.0;
    return out;
}

template <class T, class E> DEVICE Kept root_kept(const T& team, E each, double s, double target, double start) {
    if (s < INFINITE) return root_ramp(team, each, s, target, start);
    return root_jump(team, each, target, start);
}

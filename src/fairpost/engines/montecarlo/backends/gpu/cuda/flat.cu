// Flat lists: rows of noise, a few numbers of each run, and sums over runs, for all rules on the same rows.
//
// What is computed, and in which order it is added, is that of backends/cpu/kernels (`solve`, `forms`, `sums`); only Newton's
// first guess differs, which on the processor comes from the run before. Numbers of a run (`par`, five of them):
//     release   (q, m, mean, cap, floor)    share   (v, m, k, u, b)

#define PIECE 256
#define NUMBERS 5
#define MEAN_D 0
#define M2_D PIECE
#define MEAN_E (2 * PIECE)
#define M2_E (3 * PIECE)
#define ZEROS (4 * PIECE)
#define CENTRE (5 * PIECE)
#define WORK (6 * PIECE)
#define NOTHING 3.552713678800501e-15  // 2^-48: a sum that is so small beside its positive part is 0 but for rounding
enum { NONE, SUM, NONNEGATIVE, SUM_CLIPPED, SIMPLEX, BASELINE, POS, SIMPLEX_THRESHOLD, POS_THRESHOLD };

// Row t is the noise of run first + t; with `order`, place j of a row has the draw of entity order[j].
extern "C" __global__ void draw_rows(const Noise* noise, u64 seed, u64 first, int runs, long long n, const int* order, double* rows) {
    const Noise law = *noise;
    long long pairs = (n + 1) >> 1;
    for (long long t = blockIdx.y; t < runs; t += gridDim.y) {
        double* row = rows + t * n;
        for (long long j = (long long)blockIdx.x * blockDim.x + threadIdx.x; j < pairs; j += (long long)gridDim.x * blockDim.x) {
            if (order == 0) {
                Two both = draw_pair(law, (u32)j, first + t, seed);
                row[2 * j] = both.a;
                if (2 * j + 1 < n) row[2 * j + 1] = both.b;
            } else {
                row[2 * j] = draw_one(law, order[2 * j], first + t, seed);
                if (2 * j + 1 < n) row[2 * j + 1] = draw_one(law, order[2 * j + 1], first + t, seed);
            }
        }
    }
}

// Noise alone, nothing kept but a sum that nobody can leave out: what the generator itself can do.
extern "C" __global__ void draw_only(const Noise* noise, u64 seed, u64 first, int runs, long long n, double* out) {
    const Noise law = *noise;
    double total = 0.0;
    long long j = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (2 * j >= n) return;
    for (int t = 0; t < runs; t++) {
        Two both = draw_pair(law, (u32)j, first + t, seed);
        total += both.a + both.b;
    }
    out[j] = total;
}

// The processor's order: `lanes` running sums, four rows of them at a time, then lane by lane.
template <class Z> DEVICE double total_of(long long n, int lanes, double* lane, Z z) {
    long long stretch = 4LL * lanes, whole = n - n % stretch;
    for (int k = threadIdx.x; k < lanes; k += blockDim.x) {
        double s = 0.0;
#pragma unroll 4
        for (long long at = k; at < whole; at += stretch)
            s += (z(at) + z(at + lanes)) + (z(at + 2 * lanes) + z(at + 3 * lanes));
        for (long long at = whole + k; at < n; at += lanes) s += z(at);
        lane[k] = s;
    }
    __syncthreads();
    double total = 0.0;
    for (int k = 0; k < (n < lanes ? (int)n : lanes); k++) total += lane[k];
    __syncthreads();
    return total;
}

struct Excess { double over, count; };

DEVICE double over_of(double d) { return d > 0.0 ? d : 0.0; }
DEVICE double one_of(double d) { return d > 0.0 ? 1.0 : 0.0; }

template <class Z> DEVICE Excess excess(long long n, int lanes, double* lane, double m, Z z) {
    long long stretch = 4LL * lanes, whole = n - n % stretch;
    for (int k = threadIdx.x; k < lanes; k += blockDim.x) {
        double s = 0.0, c = 0.0;
#pragma unroll 4
        for (long long at = k; at < whole; at += stretch) {
            double d0 = z(at) - m, d1 = z(at + lanes) - m, d2 = z(at + 2 * lanes) - m, d3 = z(at + 3 * lanes) - m;
            s += (over_of(d0) + over_of(d1)) + (over_of(d2) + over_of(d3));
            c += (one_of(d0) + one_of(d1)) + (one_of(d2) + one_of(d3));
        }
        for (long long at = whole + k; at < n; at += lanes) {
            double d = z(at) - m;
            s += over_of(d);
            c += one_of(d);
        }
        lane[k] = s;
        lane[lanes + k] = c;
    }
    __syncthreads();
    Excess out;
    out.over = out.count = 0.0;
    for (int k = 0; k < (n < lanes ? (int)n : lanes); k++) {
        out.over += lane[k];
        out.count += lane[lanes + k];
    }
    __syncthreads();
    return out;
}

// The m with sum (z - m)_+ = target from `start`; exactly `start` where none is clipped.
template <class Z> DEVICE double newton(long long n, int lanes, double* lane, double target, double start, Z z) {
    double m = start, before = -1.0;
    for (int step = 0; step < 1000; step++) {
        Excess e = excess(n, lanes, lane, m, z);
        if (e.count == 0.0) break;
        double next = m + (e.over - target) / e.count;
        if (e.count == before || (step > 0 && next <= m)) {
            m = e.count == (double)n ? start : next;
            break;
        }
        m = next;
        before = e.count;
    }
    return m;
}

// One rule on all entities together.
struct Rule {
    int code, spare;
    double shift, target, whole;  // whole: the sum of w
    const double *w, *left;       // left: the part of the control that is left in
};

// The numbers of one run of one rule a block of threads; lane has 2 * lanes doubles.
extern "C" __global__ void solve_flat(const Rule* rules, int lanes, long long n, const double* x, const double* rows, double* par, int* odd) {
    ROOM(lane);
    const Rule rule = rules[blockIdx.y];
    const double *eta = rows + blockIdx.x * n, *w = rule.w;
    long long which = (long long)blockIdx.y * gridDim.x + blockIdx.x;
    double* out = par + which * NUMBERS;
    int code = rule.code;
    auto noise = [&](long long i) { return eta[i]; };
    auto z = [&](long long i) { return w[i] * (x[i] + eta[i]); };
    double a, b, c, d, e;
    int strange = 0;
    if (code <= SIMPLEX) {
        bool keeps = code != NONE && code != NONNEGATIVE, linear = code <= SUM;
        double mean = keeps ? total_of(n, lanes, lane, noise) / (double)n : 0.0, q = mean - rule.shift;
        a = b = q;
        c = mean;
        d = linear ? 0.0 : INFINITE;
        e = linear ? q : -INFINITE;
        if (code == SIMPLEX) b = newton(n, lanes, lane, rule.target, q, z);
    } else {
        double total = total_of(n, lanes, lane, z);
        bool near = code == POS && fabs(total) < 0.5;  // the true counts have the sum 1
        double positive = near || code != POS ? excess(n, lanes, lane, 0.0, z).over : 0.0;
        double size = code == POS ? fabs(total) : positive;
        bool lost = code == POS ? near && size <= NOTHING * positive : size == 0.0;
        bool turned = code == POS && total < 0.0 && !lost;
        double m = 0.0;
        if (code == POS && !lost) {
            if (turned) m = newton(n, lanes, lane, size, 0.0, [&](long long i) { return -z(i); });
            else m = newton(n, lanes, lane, size, 0.0, z);
        }
        double v = lost ? 0.0 : 1.0 / size;
        a = turned ? -v : v;
        b = m;
        c = lost ? 1.0 / rule.whole : 0.0;
        d = total - 1.0;
        e = m * v;
        strange = turned || lost;
    }
    if (threadIdx.x == 0) {
        out[0] = a, out[1] = b, out[2] = c, out[3] = d, out[4] = e;
        odd[which] = strange;
    }
}

struct Error { double d, e, zero; };

DEVICE Error release_error(double eta, double x, double g, const double* p) {
    double X = x + eta, linear = eta - p[2], d = p[0] - (p[1] > X ? X : p[1]);
    d = d < p[3] ? d : p[3];
    Error out;
    out.d = fma(g, linear, d);
    out.e = linear + d;
    out.zero = p[1] >= X && p[4] <= X ? 1.0 : 0.0;
    return out;
}

DEVICE Error share_error(double eta, double x, double w, double g, const double* p) {
    double z = w * (x + eta), over = fma(p[0], z, -p[4]), share = over > 0.0 ? over : 0.0;
    double d = fma(w * x, p[3], share - z), e = share - w * x;
    Error out;
    out.d = fma(g, e - d, d);
    out.e = e;
    out.zero = share == 0.0 ? 1.0 : 0.0;
    return out;
}

struct Sums {
    double d, dd, e, ee, zeros, centre;
    DEVICE void load(const double* piece, int i) {
        d = piece[i + MEAN_D], dd = piece[i + M2_D], e = piece[i + MEAN_E], ee = piece[i + M2_E];
        zeros = piece[i + ZEROS], centre = piece[i + CENTRE];
    }
    DEVICE void store(double* piece, int i) const {
        piece[i + MEAN_D] = d, piece[i + M2_D] = dd, piece[i + MEAN_E] = e, piece[i + M2_E] = ee;
        piece[i + ZEROS] = zeros, piece[i + CENTRE] = centre;
    }
    DEVICE void add(double first, double second, double zero) {
        double u = first - centre, v = second - centre;
        d += u, dd += u * u, e += v, ee += v * v, zeros += zero;
    }
};

// Sums over the runs of each of some blocks, two threads an entity (one adds d and the zeros, the other e), four runs at a time as on
// the processor; `begin`: these are the first runs of a block; `count`: the rules whose sums a block has, of `size` each. The numbers of
// TILE runs lie in the threads' shared memory.
#define TILE 64
extern "C" __global__ void moments_flat(
    const Rule* rules, int blocks, int runs, long long n, int begin, int count, long long size, const double* x, const double* rows,
    const double* par, double* work
) {
    __shared__ double near[TILE * NUMBERS];
    int which = blockIdx.y / blocks, block = blockIdx.y % blocks;
    const Rule rule = rules[which];
    par += (long long)blockIdx.y * runs * NUMBERS;
    rows += (long long)block * runs * n;
    work += ((long long)block * count + which) * size;
    long long j = (long long)blockIdx.x * blockDim.x + threadIdx.x, half = (long long)gridDim.x * blockDim.x / 2;
    bool second = j >= half, release = rule.code <= SIMPLEX;
    long long i = second ? j - half : j;
    bool here = i < n;
    if (!here) i = 0;
    double* piece = work + (i / PIECE) * WORK + i % PIECE;
    double truth = x[i], weight = rule.w[i], g = rule.left[i], sum = piece[second ? MEAN_E : MEAN_D], squares = piece[second ? M2_E : M2_D];
    double zeros = piece[ZEROS], centre = piece[CENTRE];
    if (begin) centre = (release ? release_error(rows[i], truth, g, par) : share_error(rows[i], truth, weight, g, par)).d;
    for (int tile = 0; tile < runs; tile += TILE) {
        int many = runs - tile < TILE ? runs - tile : TILE;
        bool lost = false;
        __syncthreads();
        TOGETHER(k, many * NUMBERS) near[k] = par[(long long)tile * NUMBERS + k];
        __syncthreads();
#pragma unroll 2
        for (int t = 0; t < many; t += 4) {
            double u[4], o[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                int at = t + k < many ? t + k : t;
                const double* p = near + at * NUMBERS;
                double eta = rows[(long long)(tile + at) * n + i];
                Error e = release ? release_error(eta, truth, g, p) : share_error(eta, truth, weight, g, p);
                bool without = !release && p[2] > 0.0;
                lost = lost || without;
                double times = t + k < many && !without ? 1.0 : 0.0;
                u[k] = ((second ? e.e : e.d) - centre) * times;
                o[k] = e.zero * times;
            }
            sum += (u[0] + u[1]) + (u[2] + u[3]);
            squares += fma(u[0], u[0], u[1] * u[1]) + fma(u[2], u[2], u[3] * u[3]);
            zeros += (o[0] + o[1]) + (o[2] + o[3]);
        }
        for (int t = 0; lost && t < many; t++) {  // draws without information
            const double* p = near + t * NUMBERS;
            if (!(p[2] > 0.0)) continue;
            double eta = rows[(long long)(tile + t) * n + i], share = p[2] * weight, e = share - weight * truth;
            double d = (share - weight * (truth + eta)) + weight * truth * p[3], value = (second ? e : fma(g, e - d, d)) - centre;
            sum += value;
            squares += value * value;
        }
    }
    if (!here) return;
    piece[second ? MEAN_E : MEAN_D] = sum;
    piece[second ? M2_E : M2_D] = squares;
    if (!second) piece[ZEROS] = zeros;
    if (!second) piece[CENTRE] = centre;
}

// The pair that is followed, run by run: the mean of d and e over who[:split] less that over the rest.
extern "C" __global__ void pair_flat(
    const Rule* rules, int runs, long long n, const double* x, const double* rows, const double* par, const int* who, int many, int split,
    double* out
) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= runs || rules[blockIdx.y].code > SIMPLEX) return;
    par += (long long)blockIdx.y * runs * NUMBERS;
    out += (long long)blockIdx.y * runs * 2;
    const double* left = rules[blockIdx.y].left;
    double d = 0.0, e = 0.0;
    for (int k = 0; k < many; k++) {
        Error found = release_error(rows[(long long)t * n + who[k]], x[who[k]], left[who[k]], par + (long long)t * NUMBERS);
        double weight = k < split ? 1.0 / split : -1.0 / (many - split);
        d += weight * found.d;
        e += weight * found.e;
    }
    out[2 * t] = d;
    out[2 * t + 1] = e;
}

// Sums about a centre to means and squared deviations, in the layout of the totals.
extern "C" __global__ void finish(long long pieces, int runs, const double* work, double* out) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pieces * PIECE) return;
    const double* piece = work + (i / PIECE) * WORK;
    double* to = out + (i / PIECE) * (5 * PIECE);
    int at = (int)(i % PIECE);
    Sums s;
    s.load(piece, at);
    to[at + MEAN_D] = s.centre + s.d / runs;
    to[at + M2_D] = most_of(s.dd - s.d * (s.d / runs), 0.0);
    to[at + MEAN_E] = s.centre + s.e / runs;
    to[at + M2_E] = most_of(s.ee - s.e * (s.e / runs), 0.0);
    to[at + ZEROS] = s.zeros;
}

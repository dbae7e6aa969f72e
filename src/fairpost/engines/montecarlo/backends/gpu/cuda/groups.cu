// Partitions and threshold mechanisms: every group of every run has numbers of its own, from which each entity's output follows.
//
//     z = weight (x + eta)     out = keep(z) * factor     e = out - base     d = e - L + left L     L = slope eta - share common
// release: weight = slope = share = 1, common = the group's mean of eta; allocation: common = sum slope eta, slope = w, share = w x
// (both 0 where all counts of a group are 0). Places are in gathered order, group after group.

#define PLACES 8  // r, cut, at, part, factor (0: a draw without information), common, 1 or -1, the share of 1 a unit of weight

struct Groups {
    int code, count;
    long long n;
    double steep, dust;  // outputs up to `dust` are 0 but for rounding
    const int* starts;   // count + 1
    const int* member;   // the group of each place
    const double *x, *weight, *level, *base, *slope, *share, *left, *totals;
};

extern "C" __global__ void solve_groups(const Groups* groups, const double* rows, double* par, int* odd) {
    const Groups g = *groups;
    __shared__ double room[64];
    Whole team(room);
    long long which = blockIdx.x;
    int t = (int)(which / g.count), k = (int)(which % g.count);
    long long a = g.starts[k], n = g.starts[k + 1] - a;
    const double* eta = rows + t * g.n + a;
    const double *x = g.x + a, *weight = g.weight + a, *level = g.level + a, *slope = g.slope + a;
    bool share = g.code == BASELINE || g.code == POS || g.code == POS_THRESHOLD;
    double common = 0.0, total = 0.0, whole = 0.0, positive = 0.0;
    for (long long i = team.rank(); i < n; i += team.size()) {
        double z = weight[i] * (x[i] + eta[i]);
        common += share ? slope[i] * eta[i] : eta[i];
        total += z;
        whole += weight[i];
        positive += z > 0.0 ? z : 0.0;
    }
    common = team.sum(common);
    total = team.sum(total);
    if (share) whole = team.sum(whole);
    if (share) positive = team.sum(positive);
    double turn = 1.0, factor = 1.0, target = share ? fabs(total) : g.totals[k];
    bool lost = false;
    if (!share) common = common / (double)n;
    else if (g.code == BASELINE) {
        lost = positive == 0.0;
        factor = lost ? 0.0 : 1.0 / positive;
    } else {
        lost = fabs(total) <= NOTHING * positive;
        turn = total < 0.0 && !lost ? -1.0 : 1.0;
        factor = lost ? 0.0 : 1.0 / target;
    }
    auto each = [&](auto f) {
        for (long long i = team.rank(); i < n; i += team.size()) f(turn * (weight[i] * (x[i] + eta[i])), level[i]);
    };
    Kept kept;
    kept.cut = kept.at = INFINITE;
    kept.part = 0.0;
    kept.r = (turn * total - target) / (double)n;
    if (g.code == BASELINE) kept.r = 0.0;
    else if (lost || g.code <= SUM_CLIPPED) {
    } else if (target == 0.0) kept.r = kept.cut = INFINITE;
    else if (g.code == SIMPLEX || g.code == POS) kept.r = root_above(team, each, target, kept.r, kept.r);
    else kept = root_kept(team, each, g.steep, target, kept.r);
    if (team.rank() == 0) {
        double* out = par + which * PLACES;
        out[0] = kept.r, out[1] = kept.cut, out[2] = kept.at, out[3] = kept.part;
        out[4] = factor, out[5] = common, out[6] = turn, out[7] = 1.0 / (share ? whole : 1.0);
        odd[which] = lost || turn < 0.0;
    }
}

DEVICE double outcome(const Groups& g, double z, double level, double weight, const double* p) {
    if (p[4] == 0.0) return weight * p[7];
    double u = p[6] * z;
    if (g.code >= SIMPLEX_THRESHOLD) {
        Kept k;
        k.r = p[0], k.cut = p[1], k.at = p[2], k.part = p[3];
        return p[0] == INFINITE ? 0.0 : kept_of(u, level, g.steep, k) * p[4];
    }
    double over = u - p[0];
    return (over > 0.0 || g.code == SUM ? over : 0.0) * p[4];
}

extern "C" __global__ void moments_groups(const Groups* groups, int runs, const double* rows, const double* par, int begin, double* work) {
    const Groups g = *groups;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= g.n) return;
    double* piece = work + (i / PIECE) * WORK;
    int at = (int)(i % PIECE);
    double x = g.x[i], weight = g.weight[i], level = g.level[i], base = g.base[i], slope = g.slope[i], share = g.share[i], left = g.left[i];
    Sums s;
    s.load(piece, at);
    for (int t = 0; t < runs; t++) {
        const double* p = par + ((long long)t * g.count + g.member[i]) * PLACES;
        double eta = rows[(long long)t * g.n + i];
        double out = outcome(g, weight * (x + eta), level, weight, p);
        double e = out - base, linear = slope * eta - share * p[5], d = fma(left, linear, e - linear);
        if (begin && t == 0) s.centre = d;
        s.add(d, e, out == 0.0 || (g.dust > 0.0 && out <= g.dust) ? 1.0 : 0.0);
    }
    s.store(piece, at);
}

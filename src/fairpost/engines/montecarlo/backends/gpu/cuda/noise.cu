// Noise: the words, variables and draws of fairpost.noise.kernels, operation for operation.
//
// Compiled with --fmad=false: no product is fused into a sum unless `fma` says so, division and square root are correctly
// rounded, and so every draw has the bits that the processor gives it. KIND is 0 Laplace, 1 Gaussian, 2 discrete Laplace,
// 3 discrete Gaussian; GUIDED says that leaves have a discrete Gaussian with a table.

typedef unsigned long long u64;
typedef unsigned int u32;

#define DEVICE __device__ __forceinline__

struct Words { u64 a, b; };

// Philox4x32-10: two words of one counter under the key `seed`.
DEVICE Words philox(u32 block, u32 attempt, u64 run, u64 seed) {
    u32 c0 = block, c1 = attempt, c2 = (u32)run, c3 = (u32)(run >> 32);
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
    for (int i = 0; i < 10; i++) {
        u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c1 = (u32)p1;
        c3 = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    Words w;
    w.a = c0 | ((u64)c1 << 32);
    w.b = c2 | ((u64)c3 << 32);
    return w;
}

DEVICE double uniform(u64 w) { return ((double)(long long)(w >> 1) + 0.5) * 1.0842021724855044e-19; }  // 2^-63

DEVICE double of_bits(u64 b) { return __longlong_as_double((long long)b); }
DEVICE u64 bits_of(double x) { return (u64)__double_as_longlong(x); }
DEVICE double with_sign(double x, u64 w) { return of_bits(bits_of(x) | (w << 63)); }

// -log x, see noise/kernels/transforms.py for the derivation and the polynomials.
DEVICE double neg_log(double x) {
    const u64 root_half = 0x3FE6A09E667F3BCDull;
    u64 raised = bits_of(x) + (0x3FF0000000000000ull - root_half);
    double e = (double)(1023 - (int)(raised >> 52));
    double f = of_bits((raised & 0x000FFFFFFFFFFFFFull) + root_half) - 1.0;
    double q = f / (2.0 + f);
    double z = q * q;
    double zz = z * z;
    double top = (0.1818289290884391 + z * 0.153316072416309) + zz * 0.14617745505134075;
    double p = (0.666666666666667 + z * 0.39999999999898506) +
               zz * ((0.28571428626372397 + z * 0.2222221107712738) + zz * top);
    return e * of_bits(0x3FE62E42FEE00000ull) + ((e * of_bits(0x3DEA39EF35793C76ull) - q * (z * p)) - (q + q));
}

struct Two { double a, b; };

DEVICE Two normal_pair(Words w) {
    double radius = sqrt(2.0 * neg_log(uniform(w.a)));
    double t = ((double)((long long)w.b >> 2) + 0.5) * 2.168404344971009e-19;  // 2^-62
    double y = t * t;
    double s = 5.633938525660825e-08, c = 4.655301316926533e-07;
    s = s * y + -3.5986433889448568e-06;
    c = c * y + -2.5200135652635974e-05;
    s = s * y + 0.00016044115075243396;
    c = c * y + 0.0009192599501521089;
    s = s * y + -0.0046817541323423235;
    c = c * y + -0.020863480734961075;
    s = s * y + 0.07969262624604308;
    c = c * y + 0.2536695078998656;
    s = s * y + -0.6459640975062443;
    c = c * y + -1.2337005501361513;
    s = s * y + 1.5707963267948966;
    c = c * y + 1.0;
    double sine = radius * (s * t), cosine = with_sign(radius * c, w.b);
    Two out;
    out.a = (w.b & 2) ? sine : cosine;
    out.b = (w.b & 2) ? cosine : sine;
    return out;
}

// What a level's noise is made of. `guide` and `cuts` serve the discrete Gaussian of sigma <= 6 (as noise/kernels/guide.py,
// with BINS bins); `one` is the shift of the discrete Laplace; or `one` and `two` are `steep` and 1 / 2 sigma^2 of the rejection
// (streams.py).
#define BINS 4096
#define CUTS 64
#define BIN_SHIFT 52

struct Noise {
    double spread, one, two;
    const unsigned char* guide;
    const double* cuts;
};

DEVICE int by_guide(u64 w, const unsigned char* guide, const double* cuts) {
    int found = guide[w >> BIN_SHIFT];
    if (found >= 128) {
        found -= 128;
        double u = uniform(w);
        while (u <= cuts[found + 1]) found++;
    }
    return (w & 1) ? -found : found;
}

// The rejection (streams.py has the derivation): g(s) - 1, then one attempt for the draws of a block that are still missing. Attempt j
// reads the words of 2 j, and those of 2 j + 1 where the first 16 bits of v leave it open.
#define NOT_YET of_bits(0x7FF8000000000000ull)

DEVICE double growth(double s, double h) {
    const double moments[7][6] = {
        {1.0, -0.08333333333333333, 0.00625, -0.0003720238095238095, 1.808449074074074e-05, -7.398200757575758e-07},
        {0.041666666666666664, -0.00625, 0.0005580357142857143, -3.616898148148148e-05, 1.8495501893939394e-06, -7.825020032051282e-08},
        {0.0005208333333333333, -9.300595238095238e-05, 9.04224537037037e-06, -6.165167297979799e-07, 3.260425013354701e-08, -1.4128508391203703e-09},
        {3.1001984126984127e-06, -6.028163580246913e-07, 6.165167297979798e-08, -4.347233351139601e-09, 2.3547513985339507e-10, -1.0388609111179193e-11},
        {1.076457782186949e-08, -2.2018454635642136e-09, 2.328875009539072e-10, -1.6819652846671074e-11, 9.275543849267137e-13, -4.149585406251088e-14},
        {2.446494959515793e-11, -5.175277798975716e-12, 5.606550948890358e-13, -4.122463933007617e-14, 2.3053252256950488e-15, -1.0428852211477602e-16},
        {3.920664999224027e-14, -8.494774164985392e-15, 9.369236211380947e-16, -6.985834017257723e-17, 3.950322807377879e-18, -1.803408238150771e-19}
    };
    double square = s * s, total = 0.0, moment = 0.0;
#pragma unroll
    for (int j = 6; j >= 0; j--) {
        total = (total + moment) * square;
        moment = moments[j][5];
#pragma unroll
        for (int i = 4; i >= 0; i--) moment = moment * h + moments[j][i];
    }
    return total / moment;
}

template <class More> DEVICE double settle(double z, u32 first, const Noise& law, More more) {
    double k = rint(z), y = k * law.one, cell = (double)first;
    if (cell + y * y <= 65535.0) return k + 0.0;
    double v = (cell + uniform(more())) * 1.52587890625e-05;  // 2^-16
    return v + v * growth(k / law.spread / law.spread, law.two) <= 1.0 ? k + 0.0 : NOT_YET;
}

DEVICE Two by_rejection(u32 block, const Noise& law, u64 run, u64 seed) {
    Two out;
    out.a = out.b = NOT_YET;
    for (u32 attempt = 0; out.a != out.a || out.b != out.b; attempt += 2) {
        Words w = philox(block, attempt, run, seed);
        Two z = normal_pair(w);
        auto more = [&]() { return philox(block, attempt + 1, run, seed); };
        if (out.a != out.a) out.a = settle(law.spread * z.a, (u32)w.a & 0xFFFF, law, [&]() { return more().a; });
        if (out.b != out.b) out.b = settle(law.spread * z.b, (u32)(w.b >> 2) & 0xFFFF, law, [&]() { return more().b; });
    }
    return out;
}

// The draws 2 block and 2 block + 1 of one run.
DEVICE Two draw_pair(const Noise& law, u32 block, u64 run, u64 seed) {
    Two out;
    out.a = out.b = 0.0;
    if (law.spread == 0.0) return out;
#if KIND == 3
    if (law.spread > 6.0) return by_rejection(block, law, run, seed);
#endif
    Words w = philox(block, 0, run, seed);
#if KIND == 0
    out.a = with_sign(law.spread * neg_log(uniform(w.a)), w.a);
    out.b = with_sign(law.spread * neg_log(uniform(w.b)), w.b);
#elif KIND == 1
    out = normal_pair(w);
    out.a = law.spread * out.a;
    out.b = law.spread * out.b;
#elif KIND == 2
    out.a = with_sign(floor(law.spread * (neg_log(uniform(w.a)) + law.one)), w.a) + 0.0;
    out.b = with_sign(floor(law.spread * (neg_log(uniform(w.b)) + law.one)), w.b) + 0.0;
#else
    out.a = (double)by_guide(w.a, law.guide, law.cuts);
    out.b = (double)by_guide(w.b, law.guide, law.cuts);
#endif
    return out;
}

DEVICE double draw_one(const Noise& law, u64 i, u64 run, u64 seed) {
    Two both = draw_pair(law, (u32)(i >> 1), run, seed);
    return (i & 1) ? both.b : both.a;
}

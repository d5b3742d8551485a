// The layers of ConvNets and ResNets on a CPU, with their first and second derivatives.
//
// Images are NHWC (torch's channels_last), so every loop runs along the channels, one vector at a time.
//
//   convolve          3x3, stride 1, padding 1, as F(4x4, 3x3) of Winograd: tiles of 4x4 outputs cost 36 multiplications
//                     for each pair of channels in place of 144. Y = A'[(G g G') * (B' d B)]A, summed over input channels.
//   weight_gradients  its adjoint in g, summed over each stretch of images.
//   block_*           instance norm, ReLU and average pooling in one pass; its gradient; the gradient of its gradient. The
//                     pooling is of 2x2 or 4x4 pixels, or none; without pooling, the ReLU can be left out too.
//
// Names: d input tile, g filter, m product, y output tile; V, U, M, Z their transforms; p one of the 36 places of a tile.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <omp.h>
#if defined(__AVX512BF16__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of gcc 12's own header
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int LANES = 16, COLUMNS = 4;  // floats in a vector; vectors of a row that fit into the registers
#elif defined(__AVX__)
constexpr int LANES = 8, COLUMNS = 2;
#else
constexpr int LANES = 4, COLUMNS = 4;
#endif
constexpr int ROWS = 6;  // rows of a product that are summed up in registers
constexpr int OUT = 4, IN = 6, PLACES = IN * IN;
constexpr long CACHE = 900 * 1024;  // bytes that a thread works on at a time

typedef float Vector __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

inline Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<Vector*>(to) = value; }

inline Vector load_some(const float* from, int count) {
    Vector value{};
    for (int lane = 0; lane < count; ++lane) value[lane] = from[lane];
    return value;
}

inline void store_some(float* to, Vector value, int count) {
    for (int lane = 0; lane < count; ++lane) to[lane] = value[lane];
}

inline Vector read(const float* from, int count) { return count >= LANES ? load(from) : load_some(from, count); }
inline void write(float* to, Vector value, int count) {
    if (count >= LANES) store(to, value);
    else store_some(to, value, count);
}

inline long over(long count, long size) { return (count + size - 1) / size; }  // the number of parts of that size
inline int padded(int channels) { return int(over(channels, LANES)) * LANES; }

struct Free { void operator()(float* memory) const { std::free(memory); } };
using Buffer = std::unique_ptr<float, Free>;

Buffer buffer(std::size_t count) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, std::max<std::size_t>(count, 1) * sizeof(float))) memory = nullptr;
    return Buffer(static_cast<float*>(memory));
}

// ---- the one-dimensional transforms ----

inline void input_line(const Vector* d, Vector* v, int step) {  // B' d
    const Vector a = d[4] - 4 * d[2], b = d[3] - 4 * d[1], c = d[4] - d[2], e = 2 * (d[3] - d[1]);
    v[0 * step] = 4 * d[0] - 5 * d[2] + d[4];
    v[1 * step] = a + b;
    v[2 * step] = a - b;
    v[3 * step] = c + e;
    v[4 * step] = c - e;
    v[5 * step] = 4 * d[1] - 5 * d[3] + d[5];
}

inline void output_line(const Vector* m, Vector* y, int step) {  // A' m
    const Vector a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], e = m[3] - m[4];
    y[0 * step] = m[0] + a + c;
    y[1 * step] = b + 2 * e;
    y[2 * step] = a + 4 * c;
    y[3 * step] = b + 8 * e + m[5];
}

inline void output_line_adjoint(const Vector* y, Vector* z, int step) {  // A y
    const Vector a = y[0] + y[2], b = y[1] + y[3], c = y[0] + 4 * y[2], e = 2 * y[1] + 8 * y[3];
    z[0 * step] = y[0];
    z[1 * step] = a + b;
    z[2 * step] = a - b;
    z[3 * step] = c + e;
    z[4 * step] = c - e;
    z[5 * step] = y[3];
}

inline void filter_line(const Vector* g, Vector* u, int step) {  // G g
    const Vector a = -(g[0] + g[2]) / 6, b = g[1] / 6, c = g[0] / 24 + g[2] / 6, e = g[1] / 12;
    u[0 * step] = g[0] / 4;
    u[1 * step] = a - b;
    u[2 * step] = a + b;
    u[3 * step] = c + e;
    u[4 * step] = c - e;
    u[5 * step] = g[2];
}

inline void filter_line_adjoint(const Vector* u, Vector* g, int step) {  // G' u
    const Vector a = u[1] + u[2], b = u[2] - u[1], c = u[3] + u[4], e = u[3] - u[4];
    g[0 * step] = u[0] / 4 - a / 6 + c / 24;
    g[1 * step] = b / 6 + e / 12;
    g[2 * step] = (c - a) / 6 + u[5];
}

template <int FROM, int TO, void (*LINE)(const Vector*, Vector*, int)>
inline void both_ways(const Vector* from, Vector* to) {  // columns, then rows, of a square tile
    Vector half[TO * FROM];
    for (int column = 0; column < FROM; ++column) {
        Vector line[FROM];
        for (int row = 0; row < FROM; ++row) line[row] = from[row * FROM + column];
        LINE(line, half + column, FROM);
    }
    for (int row = 0; row < TO; ++row) LINE(half + row * FROM, to + row * TO, 1);
}

// ---- tiles of images [n, h, w, c] ----

struct Grid {
    int height, width, down, across;
    Grid(int h, int w) : height(h), width(w), down(int(over(h, OUT))), across(int(over(w, OUT))) {}
    long per_image() const { return long(down) * across; }
};

template <int SIDE, int BEFORE>  // pixels of a tile, which begins BEFORE pixels above and left of its outputs
inline void read_tile(const float* images, const Grid& grid, int channels, long tile, int channel, Vector* d) {
    const long image = tile / grid.per_image();
    const int place = int(tile % grid.per_image());
    const int top = place / grid.across * OUT - BEFORE, left = place % grid.across * OUT - BEFORE;
    const float* first = images + image * grid.height * grid.width * channels + channel;
    const int count = channels - channel;
    for (int row = 0; row < SIDE; ++row)
        for (int column = 0; column < SIDE; ++column) {
            const int y = top + row, x = left + column;
            const bool inside = y >= 0 && y < grid.height && x >= 0 && x < grid.width;
            d[row * SIDE + column] = inside ? read(first + (long(y) * grid.width + x) * channels, count) : Vector{};
        }
}

inline void write_tile(float* images, const Grid& grid, int channels, long tile, int channel, const Vector* y) {
    const long image = tile / grid.per_image();
    const int place = int(tile % grid.per_image());
    const int top = place / grid.across * OUT, left = place % grid.across * OUT;
    float* first = images + image * grid.height * grid.width * channels + channel;
    const int count = channels - channel;
    for (int row = 0; row < OUT && top + row < grid.height; ++row)
        for (int column = 0; column < OUT && left + column < grid.width; ++column)
            write(first + (long(top + row) * grid.width + left + column) * channels, y[row * OUT + column], count);
}

// ---- products ----

// How factors are stored: as float32, or as pairs of bfloat16 that one instruction multiplies and adds. Sums are
// float32 in either case. A row of factors [..., channels] holds channels / DEPTH elements where it is summed up along
// the channels, and channels elements, each of DEPTH rows, where it is summed up along the rows.
struct Whole {
    typedef float Element;
    static constexpr int DEPTH = 1;
    static inline Vector add(Vector sum, Element left, Vector right) { return sum + left * right; }
    static inline void pack(Element* to, const Vector* rows) { store(to, rows[0]); }
    static inline void narrow(Element* to, Vector row, int count) { write(to, row, count); }
};

#if defined(__AVX512BF16__)
struct Half {
    typedef unsigned Element;
    static constexpr int DEPTH = 2;
    static inline __m512i low(Vector row) { return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)row)); }
    static inline Vector add(Vector sum, Element left, Vector right) {
        return (Vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(int(left)), (__m512bh)(__m512)right);
    }
    static inline void pack(Element* to, const Vector* rows) {
        _mm512_storeu_si512(to, _mm512_or_si512(low(rows[0]), _mm512_slli_epi32(low(rows[1]), 16)));
    }
    static inline void narrow(Element* to, Vector row, int) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh((__m512)row));
    }
};
#else
typedef Whole Half;
#endif

// to[r][c] (+)= sum_k a[r * a_row + k * a_step] * b[k * b_step + c], for R rows and C vectors of columns
template <typename Kind, int R, int C, bool ADD>
inline void product(const typename Kind::Element* a, long a_row, long a_step, const typename Kind::Element* b, long b_step,
                    long terms, float* to, long to_row) {
    Vector sum[R][C];
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) sum[r][c] = ADD ? load(to + r * to_row + c * LANES) : Vector{};
    for (long k = 0; k < terms; ++k) {
        Vector right[C];
        for (int c = 0; c < C; ++c) right[c] = load(reinterpret_cast<const float*>(b + k * b_step + c * LANES));
        for (int r = 0; r < R; ++r)
            for (int c = 0; c < C; ++c) sum[r][c] = Kind::add(sum[r][c], a[r * a_row + k * a_step], right[c]);
    }
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) store(to + r * to_row + c * LANES, sum[r][c]);
}

template <typename Kind, int C, bool ADD, int R = ROWS>
inline void product_rows(int rows, const typename Kind::Element* a, long a_row, long a_step,
                         const typename Kind::Element* b, long b_step, long terms, float* to, long to_row) {
    for (; rows >= R; rows -= R, a += R * a_row, to += R * to_row)
        product<Kind, R, C, ADD>(a, a_row, a_step, b, b_step, terms, to, to_row);
    if constexpr (R > 1)
        if (rows) product_rows<Kind, C, ADD, R - 1>(rows, a, a_row, a_step, b, b_step, terms, to, to_row);
}

template <typename Kind, bool ADD, int C = COLUMNS>
inline void product_block(int vectors, int rows, const typename Kind::Element* a, long a_row, long a_step,
                          const typename Kind::Element* b, long b_step, long terms, float* to, long to_row) {
    if (vectors == C) product_rows<Kind, C, ADD>(rows, a, a_row, a_step, b, b_step, terms, to, to_row);
    else if constexpr (C > 1) product_block<Kind, ADD, C - 1>(vectors, rows, a, a_row, a_step, b, b_step, terms, to, to_row);
}

// U [place, block of columns, ci / DEPTH, columns of the block] of filters g [co, ci, 3, 3] with any strides of co and ci
template <typename Kind>
void transform_filters(const float* g, long co_step, long ci_step, int ci, int co, typename Kind::Element* U, int threads) {
    const int wide = padded(co), deep = ci / Kind::DEPTH;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < deep; ++i)
        for (int o = 0; o < wide; o += LANES) {
            Vector u[Kind::DEPTH][PLACES];
            for (int d = 0; d < Kind::DEPTH; ++d) {
                Vector filter[9]{};
                const float* from = g + (i * Kind::DEPTH + d) * ci_step;
                for (int lane = 0; lane < std::min(LANES, co - o); ++lane)
                    for (int tap = 0; tap < 9; ++tap) filter[tap][lane] = from[(o + lane) * co_step + tap];
                both_ways<3, IN, filter_line>(filter, u[d]);
            }
            const int block = o / (COLUMNS * LANES) * COLUMNS * LANES, columns = std::min(COLUMNS * LANES, wide - block);
            for (int p = 0; p < PLACES; ++p) {
                Vector rows[Kind::DEPTH];
                for (int d = 0; d < Kind::DEPTH; ++d) rows[d] = u[d][p];
                Kind::pack(U + (long(p) * wide + block) * deep + long(i) * columns + o - block, rows);
            }
        }
}

template <typename Kind>
int convolve_as(const float* x, const float* g, long co_step, long ci_step, const float* bias, float* y, long n, int h,
                int w, int ci, int co, int threads) {
    typedef typename Kind::Element Element;
    static_assert(sizeof(Element) == sizeof(float));
    const Grid grid(h, w);
    const int wide = padded(co), deep = ci / Kind::DEPTH;
    const long tiles = n * grid.per_image();
    if (!tiles) return 1;
    const long room = std::max<long>(ROWS, CACHE / (PLACES * sizeof(float) * (deep + wide)));
    const long share = over(tiles, threads), chunk = over(over(share, over(share, room)), ROWS) * ROWS;
    const long chunks = over(tiles, chunk);
    Buffer filters = buffer(std::size_t(PLACES) * deep * wide);
    Buffer work = buffer(std::size_t(threads) * PLACES * chunk * (deep + wide));
    if (!filters || !work) return 0;
    Element* U = reinterpret_cast<Element*>(filters.get());
    transform_filters<Kind>(g, co_step, ci_step, ci, co, U, threads);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (long part = 0; part < chunks; ++part) {
        float* M = work.get() + std::size_t(omp_get_thread_num()) * PLACES * chunk * (deep + wide);
        Element* V = reinterpret_cast<Element*>(M + std::size_t(PLACES) * chunk * wide);
        const long first = part * chunk, count = std::min(chunk, tiles - first);
        for (long t = 0; t < count; ++t)
            for (int c = 0; c < ci; c += LANES) {
                Vector d[PLACES], v[PLACES];
                read_tile<IN, 1>(x, grid, ci, first + t, c, d);
                both_ways<IN, IN, input_line>(d, v);
                for (int p = 0; p < PLACES; ++p) Kind::narrow(V + (p * chunk + t) * deep + c / Kind::DEPTH, v[p], ci - c);
            }
        for (int p = 0; p < PLACES; ++p)
            for (int o = 0; o < wide; o += COLUMNS * LANES) {
                const int columns = std::min(COLUMNS * LANES, wide - o);
                product_block<Kind, false>(columns / LANES, int(count), V + p * chunk * deep, deep, 1,
                                           U + (long(p) * wide + o) * deep, columns, deep, M + p * chunk * wide + o, wide);
            }
        for (long t = 0; t < count; ++t)
            for (int o = 0; o < wide; o += LANES) {
                Vector m[PLACES], out[OUT * OUT];
                for (int p = 0; p < PLACES; ++p) m[p] = load(M + (p * chunk + t) * wide + o);
                both_ways<IN, OUT, output_line>(m, out);
                if (bias) {
                    const Vector shift = read(bias + o, co - o);
                    for (Vector& value : out) value += shift;
                }
                write_tile(y, grid, co, first + t, o, out);
            }
    }
    return 1;
}

template <typename Kind>
int weight_gradients_as(const float* x, const float* slopes, const long* ends, int stretches, float* gradient, int h, int w,
                        int ci, int co, int threads) {
    typedef typename Kind::Element Element;
    const Grid grid(h, w);
    const int wide = padded(co), tall = padded(ci);
    const long most = 256, rows = most / Kind::DEPTH;  // tiles whose transforms stay in the cache
    Buffer dU = buffer(std::size_t(PLACES) * ci * wide);
    Buffer inputs = buffer(std::size_t(PLACES) * rows * tall), outputs = buffer(std::size_t(PLACES) * rows * wide);
    if (!dU || !inputs || !outputs) return 0;
    Element *V = reinterpret_cast<Element*>(inputs.get()), *Z = reinterpret_cast<Element*>(outputs.get());
    for (int s = 0; s < stretches; ++s) {
        const long begin = (s ? ends[s - 1] : 0) * grid.per_image(), end = ends[s] * grid.per_image();
        std::memset(dU.get(), 0, std::size_t(PLACES) * ci * wide * sizeof(float));
        for (long first = begin; first < end; first += most) {
            const long count = over(std::min(most, end - first), Kind::DEPTH);
#pragma omp parallel num_threads(threads)
            {
#pragma omp for schedule(static)
                for (long t = 0; t < count; ++t) {
                    Vector d[PLACES], v[Kind::DEPTH][PLACES], line[Kind::DEPTH];
                    const auto pack = [&](Element* to, long step) {
                        for (int p = 0; p < PLACES; ++p) {
                            for (int k = 0; k < Kind::DEPTH; ++k) line[k] = v[k][p];
                            Kind::pack(to + p * step, line);
                        }
                    };
                    const auto tile = [&](int k) { return first + t * Kind::DEPTH + k; };
                    for (int c = 0; c < ci; c += LANES) {
                        for (int k = 0; k < Kind::DEPTH; ++k) {
                            if (tile(k) < end) read_tile<IN, 1>(x, grid, ci, tile(k), c, d);
                            else std::fill(d, d + PLACES, Vector{});
                            both_ways<IN, IN, input_line>(d, v[k]);
                        }
                        pack(V + t * tall + c, rows * tall);
                    }
                    for (int o = 0; o < wide; o += LANES) {
                        for (int k = 0; k < Kind::DEPTH; ++k) {
                            if (tile(k) < end) read_tile<OUT, 0>(slopes, grid, co, tile(k), o, d);
                            else std::fill(d, d + OUT * OUT, Vector{});
                            both_ways<OUT, IN, output_line_adjoint>(d, v[k]);
                        }
                        pack(Z + t * wide + o, rows * wide);
                    }
                }
#pragma omp for schedule(dynamic)
                for (int p = 0; p < PLACES; ++p)
                    for (int o = 0; o < wide; o += COLUMNS * LANES)
                        product_block<Kind, true>(std::min(COLUMNS, (wide - o) / LANES), ci, V + p * rows * tall, 1, tall,
                                                  Z + p * rows * wide + o, wide, count,
                                                  dU.get() + long(p) * ci * wide + o, wide);
            }
        }
        float* to = gradient + long(s) * co * ci * 9;
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int o = 0; o < wide; o += LANES)
            for (int i = 0; i < ci; ++i) {
                Vector u[PLACES], g[9];
                for (int p = 0; p < PLACES; ++p) u[p] = load(dU.get() + (long(p) * ci + i) * wide + o);
                both_ways<IN, 3, filter_line_adjoint>(u, g);
                for (int lane = 0; lane < std::min(LANES, co - o); ++lane)
                    for (int tap = 0; tap < 9; ++tap) to[(long(o + lane) * ci + i) * 9 + tap] = g[tap][lane];
            }
    }
    return 1;
}

}  // namespace

extern "C" {

// y [n, h, w, co] = filters g * x [n, h, w, ci] (+ bias); `half` allows factors to be rounded to bfloat16, if that is
// faster on this processor; returns 0 if there is not enough memory
int convolve(const float* x, const float* g, long co_step, long ci_step, const float* bias, float* y, long n, int h,
             int w, int ci, int co, int half, int threads) {
    const auto run = half && ci % LANES == 0 ? convolve_as<Half> : convolve_as<Whole>;
    return run(x, g, co_step, ci_step, bias, y, n, h, w, ci, co, threads);
}

// gradient [stretches, co, ci, 3, 3] of the filters, from inputs x and slopes at the outputs, apart for each stretch
// of images [ends[s - 1], ends[s]); returns 0 if there is not enough memory
int weight_gradients(const float* x, const float* slopes, const long* ends, int stretches, float* gradient, int h, int w,
                     int ci, int co, int half, int threads) {
    const auto run = half ? weight_gradients_as<Half> : weight_gradients_as<Whole>;
    return run(x, slopes, ends, stretches, gradient, h, w, ci, co, threads);
}

}  // extern "C"

namespace {

// Activations are stored as float32 or as bfloat16, the upper half of a float32. Sums are float32 in either case.
typedef unsigned short Brief;
typedef Brief Briefs __attribute__((vector_size(LANES * sizeof(Brief)), aligned(sizeof(Brief)), may_alias));
typedef unsigned Bits __attribute__((vector_size(LANES * sizeof(unsigned))));

inline Vector widened(Briefs value) { return (Vector)(__builtin_convertvector(value, Bits) << 16); }

inline Briefs narrowed(Vector value) {  // to the nearest, ties to even; NaN stays NaN
    const Bits bits = (Bits)value, odd = (bits >> 16) & 1;
    const Bits rounded = value == value ? bits + 0x7fffu + odd : bits | 0x400000u;
    return __builtin_convertvector(rounded >> 16, Briefs);
}

inline Vector read(const Brief* from, int count) {
    if (count >= LANES) return widened(*reinterpret_cast<const Briefs*>(from));
    Briefs value{};
    for (int lane = 0; lane < count; ++lane) value[lane] = from[lane];
    return widened(value);
}

inline void write(Brief* to, Vector value, int count) {
    const Briefs narrow = narrowed(value);
    if (count >= LANES) *reinterpret_cast<Briefs*>(to) = narrow;
    else for (int lane = 0; lane < count; ++lane) to[lane] = narrow[lane];
}

template <int POOL> constexpr float WINDOW = 1.0f / (POOL * POOL);  // the weight of a pixel in the mean of its window

constexpr int SPAN = 4;  // vectors of channels that are processed together: long runs of memory, sums in registers

// Some vectors of channels: V of them, or, if V is 0, as many as the `count` channels need, of which the last is not full.
template <int V> struct Lanes {
    int count, vectors;

    explicit Lanes(int count_) : count(count_), vectors(V ? V : int(over(count_, LANES))) {}

    template <typename Stored> inline Vector get(const Stored* from, int v) const {
        return read(from + v * LANES, V ? LANES : count - v * LANES);
    }
    template <typename Stored> inline void put(Stored* to, int v, Vector value) const {
        write(to + v * LANES, value, V ? LANES : count - v * LANES);
    }
    template <typename Visit> inline void each(Visit visit) const {
        if constexpr (V > 0) {
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) visit(v);
        } else {
            for (int v = 0; v < vectors; ++v) visit(v);
        }
    }
};

// Calls part(i, k, lanes) for every image i and every run of channels from k on, lanes.count of them.
template <typename Part> inline void each_run(long n, int c, int threads, Part part) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long i = 0; i < n; ++i)
        for (int k = 0; k < c; k += SPAN * LANES) {
            const int count = std::min(SPAN * LANES, c - k);
            if (count == SPAN * LANES) part(i, k, Lanes<SPAN>(count));
            else if (count == SPAN / 2 * LANES) part(i, k, Lanes<SPAN / 2>(count));
            else part(i, k, Lanes<0>(count));
        }
}

template <int POOL, bool RELU, typename Stored>
void forward_as(const Stored* x, const float* gamma, const float* beta, float epsilon, Stored* y, float* mean,
                float* scale, long n, int h, int w, int c, int threads) {
    const int down = h / POOL, across = w / POOL, pixels = h * w;
    each_run(n, c, threads, [=](long i, int k, auto lanes) {
        const Stored* from = x + i * pixels * c + k;
        Vector middle[SPAN]{}, variance[SPAN]{}, slope[SPAN], level[SPAN];
        for (int row = 0; row < h; ++row) {  // row by row, so that long sums do not lose the last digits
            Vector sum[SPAN]{};
            for (int column = 0; column < w; ++column)
                lanes.each([&](int v) { sum[v] += lanes.get(from + (long(row) * w + column) * c, v); });
            lanes.each([&](int v) { middle[v] += sum[v]; });
        }
        lanes.each([&](int v) { middle[v] /= float(pixels); });
        for (int row = 0; row < h; ++row) {
            Vector sum[SPAN]{};
            for (int column = 0; column < w; ++column)
                lanes.each([&](int v) {
                    const Vector value = lanes.get(from + (long(row) * w + column) * c, v) - middle[v];
                    sum[v] += value * value;
                });
            lanes.each([&](int v) { variance[v] += sum[v]; });
        }
        lanes.each([&](int v) {
            variance[v] /= float(pixels);
            Vector factor;
            for (int lane = 0; lane < LANES; ++lane)  // 1 / infinity would be zero, which hides an overflow
                factor[lane] = std::isinf(variance[v][lane]) ? NAN : 1 / std::sqrt(variance[v][lane] + epsilon);
            lanes.put(mean + i * c + k, v, middle[v]);
            lanes.put(scale + i * c + k, v, factor);
            slope[v] = lanes.get(gamma + k, v) * factor;
            level[v] = lanes.get(beta + k, v) - slope[v] * middle[v];
        });
        for (int row = 0; row < down; ++row)
            for (int column = 0; column < across; ++column) {
                const Stored* corner = from + (long(POOL * row) * w + POOL * column) * c;
                Stored* to = y + ((i * down + row) * across + column) * c + k;
                lanes.each([&](int v) {
                    Vector total{};
                    for (int r = 0; r < POOL; ++r)
                        for (int s = 0; s < POOL; ++s) {
                            const Vector value = slope[v] * lanes.get(corner + (long(r) * w + s) * c, v) + level[v];
                            total += RELU ? (value < 0 ? Vector{} : value) : value;  // NaN stays NaN
                        }
                    lanes.put(to, v, total * WINDOW<POOL>);
                });
            }
    });
}

// One image and a run of channels of a block: its inputs, and the slopes dy at its outputs.
template <int POOL, bool RELU, typename Stored, typename Run> struct Slice {
    const Stored *x, *dy;
    int h, w, c;
    const Run& lanes;
    Vector gamma[SPAN], beta[SPAN], mean[SPAN], scale[SPAN];

    Slice(const Stored* x_, const Stored* dy_, const float* gamma_, const float* beta_, const float* mean_,
          const float* scale_, long i, int k, int h_, int w_, int c_, const Run& lanes_)
        : x(x_ + i * h_ * w_ * c_ + k), dy(dy_ + i * (h_ / POOL) * (w_ / POOL) * c_ + k), h(h_), w(w_), c(c_),
          lanes(lanes_) {
        lanes.each([&](int v) {
            gamma[v] = lanes.get(gamma_ + k, v);
            beta[v] = lanes.get(beta_ + k, v);
            mean[v] = lanes.get(mean_ + i * c + k, v);
            scale[v] = lanes.get(scale_ + i * c + k, v);
        });
    }

    // Calls visit(pixel, v, z, open, place): z is the normalised x, `open` the gradient that comes back through pooling
    // and ReLU, place the number of the pixel's window. Pixels beyond the last window have no gradient, and place -1.
    template <typename Visit> inline void each(Visit visit) const {
        const int down = h / POOL, across = w / POOL;
        for (int row = 0; row < h; ++row)
            for (int column = 0; column < w; ++column) {
                const long pixel = long(row) * w + column;
                const bool inside = row / POOL < down && column / POOL < across;
                const long place = inside ? long(row / POOL) * across + column / POOL : -1;
                lanes.each([&](int v) {
                    const Vector z = (lanes.get(x + pixel * c, v) - mean[v]) * scale[v];
                    const Vector above = place < 0 ? Vector{} : lanes.get(dy + place * c, v) * WINDOW<POOL>;
                    visit(pixel, v, z, passed(v, z, above), place);
                });
            }
    }

    // What comes back through the ReLU.
    inline Vector passed(int v, Vector z, Vector slope) const {
        return RELU ? (z * gamma[v] + beta[v] <= 0 ? Vector{} : slope) : slope;
    }
};

template <int POOL, bool RELU, typename Stored>
void backward_as(const Stored* dy, const Stored* x, const float* gamma, const float* beta, const float* mean,
                 const float* scale, Stored* dx, float* dgamma, float* dbeta, long n, int h, int w, int c, int threads) {
    const float share = 1.0f / (h * w);
    each_run(n, c, threads, [=](long i, int k, auto lanes) {
        const Slice<POOL, RELU, Stored, decltype(lanes)> s(x, dy, gamma, beta, mean, scale, i, k, h, w, c, lanes);
        Vector sum[SPAN]{}, product[SPAN]{}, outside[SPAN];
        s.each([&](long, int v, Vector z, Vector open, long) {
            sum[v] += open;
            product[v] += open * z;
        });
        lanes.each([&](int v) {
            lanes.put(dgamma + i * c + k, v, product[v]);
            lanes.put(dbeta + i * c + k, v, sum[v]);
            sum[v] *= share;
            product[v] *= share;
            outside[v] = s.gamma[v] * s.scale[v];
        });
        Stored* to = dx + i * h * w * c + k;
        s.each([&](long pixel, int v, Vector z, Vector open, long) {
            lanes.put(to + pixel * c, v, outside[v] * (open - sum[v] - z * product[v]));
        });
    });
}

// The gradient of <u, dx>: with respect to dy, and with respect to x [n, h, w, c]. With z the normalised
// x, r its scale, m the pixels, v = gamma * open the gradient of z, and P v = v - mean(v) - z mean(v z), dx is r P v, so
//   d/dv = r P u,   d/dx = -r^2 / m [(<u, v> - m mean(u) mean(v) - <u, z> <v, z> / m) z + <v, z> P u + <u, z> P v].
template <int POOL, bool RELU>
void double_backward_as(const float* u, const float* dy, const float* x, const float* gamma, const float* beta,
                        const float* mean, const float* scale, float* for_dy, float* for_x, long n, int h, int w, int c,
                        int threads) {
    const int windows = (h / POOL) * (w / POOL), m = h * w;
    const float share = 1.0f / m;
    each_run(n, c, threads, [=](long i, int k, auto lanes) {
        const Slice<POOL, RELU, float, decltype(lanes)> s(x, dy, gamma, beta, mean, scale, i, k, h, w, c, lanes);
        const float* from = u + i * m * c + k;
        Vector us[SPAN]{}, vs[SPAN]{}, uv[SPAN]{}, uz[SPAN]{}, vz[SPAN]{};
        s.each([&](long pixel, int v, Vector z, Vector open, long) {
            const Vector value = lanes.get(from + pixel * c, v);
            us[v] += value;
            vs[v] += open;
            uv[v] += value * open;
            uz[v] += value * z;
            vz[v] += open * z;
        });
        float *to_x = for_x + i * m * c + k, *to_dy = for_dy + i * windows * c + k;
        lanes.each([&](int v) {
            us[v] *= share;
            uz[v] *= share;
            vs[v] *= share * s.gamma[v];
            vz[v] *= share * s.gamma[v];
            uv[v] = uv[v] * share * s.gamma[v] - us[v] * vs[v] - uz[v] * vz[v];
            for (long place = 0; place < windows; ++place) lanes.put(to_dy + place * c, v, Vector{});
        });
        s.each([&](long pixel, int v, Vector z, Vector open, long place) {
            const Vector Pu = lanes.get(from + pixel * c, v) - us[v] - z * uz[v];
            const Vector Pv = s.gamma[v] * open - vs[v] - z * vz[v];
            lanes.put(to_x + pixel * c, v, -s.scale[v] * s.scale[v] * (uv[v] * z + vz[v] * Pu + uz[v] * Pv));
            if (place < 0) return;
            const Vector back = WINDOW<POOL> * s.gamma[v] * s.scale[v] * Pu;
            float* to = to_dy + place * c;
            lanes.put(to, v, lanes.get(to, v) + s.passed(v, z, back));
        });
    });
}

// Calls run<pool, relu>() for the cases that exist: pooling needs the ReLU before it.
#define FOR_EACH_CASE(run, ...)                        \
    if (pool == 4) run<4, true>(__VA_ARGS__);          \
    else if (pool == 2) run<2, true>(__VA_ARGS__);     \
    else if (relu) run<1, true>(__VA_ARGS__);          \
    else run<1, false>(__VA_ARGS__)

template <typename Stored> struct As {  // a pointer to images of a type that is known at run time
    inline const Stored* operator()(const void* images) const { return static_cast<const Stored*>(images); }
    inline Stored* operator()(void* images) const { return static_cast<Stored*>(images); }
};

// The same, where `stored` gives the pointers their type: that of float32 or of bfloat16 images.
#define FOR_EACH_STORED(run, ...)              \
    if (brief) {                               \
        const As<Brief> stored;                \
        FOR_EACH_CASE(run, __VA_ARGS__);       \
    } else {                                   \
        const As<float> stored;                \
        FOR_EACH_CASE(run, __VA_ARGS__);       \
    }

}  // namespace

extern "C" {

// Images are float32, or bfloat16 if `brief`; the rest is always float32.

// y [n, h/pool, w/pool, c] = mean over windows of relu(gamma * (x - mean) * scale + beta); keeps mean and scale [n, c]
void block_forward(const void* x, const float* gamma, const float* beta, float epsilon, void* y, float* mean,
                   float* scale, long n, int h, int w, int c, int pool, int relu, int brief, int threads) {
    FOR_EACH_STORED(forward_as, stored(x), gamma, beta, epsilon, stored(y), mean, scale, n, h, w, c, threads);
}

// dx [n, h, w, c], and the gradients of gamma and beta for each image [n, c], from dy [n, h/pool, w/pool, c]
void block_backward(const void* dy, const void* x, const float* gamma, const float* beta, const float* mean,
                    const float* scale, void* dx, float* dgamma, float* dbeta, long n, int h, int w, int c, int pool,
                    int relu, int brief, int threads) {
    FOR_EACH_STORED(backward_as, stored(dy), stored(x), gamma, beta, mean, scale, stored(dx), dgamma, dbeta, n, h, w, c,
                    threads);
}

// the gradients of <u, dx> with respect to dy [n, h/pool, w/pool, c] and x [n, h, w, c]: float32 only
void block_double_backward(const float* u, const float* dy, const float* x, const float* gamma, const float* beta,
                           const float* mean, const float* scale, float* for_dy, float* for_x, long n, int h, int w,
                           int c, int pool, int relu, int threads) {
    FOR_EACH_CASE(double_backward_as, u, dy, x, gamma, beta, mean, scale, for_dy, for_x, n, h, w, c, threads);
}

}  // extern "C"

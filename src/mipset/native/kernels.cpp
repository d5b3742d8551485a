// The steps of a ConvNet on a CPU, and what their first and second derivatives need.
//
// Images are NHWC (torch's channels_last), so every loop runs along the channels, one vector at a time.
//
//   convolve          3x3, stride 1, padding 1, as F(4x4, 3x3) of Winograd: tiles of 4x4 outputs cost 36 multiplications
//                     for each pair of channels in place of 144. Y = A'[(G g G') * (B' d B)]A, summed over input channels.
//   weight_gradients  the adjoint of it in g, kept apart for each stretch of images.
//   block_*           instance norm, ReLU and 2x2 average pooling in one go; its gradient; the gradient of its gradient.
//
// Names: d input tile, g filter, m product, y output tile; V, U, M, Z their transforms; p one of the 36 places of a tile.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <omp.h>

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

typedef float Vector __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef int Mask __attribute__((vector_size(LANES * sizeof(float))));

inline Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<Vector*>(to) = value; }
inline Vector all(float value) { return value - Vector{}; }

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

inline int padded(int channels) { return (channels + LANES - 1) / LANES * LANES; }

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
    Grid(int h, int w) : height(h), width(w), down((h + OUT - 1) / OUT), across((w + OUT - 1) / OUT) {}
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

// to[r][c] (+)= sum_k a[r * a_row + k * a_step] * b[k * b_step + c], for R rows and C vectors of columns
template <int R, int C, bool ADD>
inline void product(const float* a, long a_row, long a_step, const float* b, long b_step, long terms, float* to, long to_row) {
    Vector sum[R][C];
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) sum[r][c] = ADD ? load(to + r * to_row + c * LANES) : Vector{};
    for (long k = 0; k < terms; ++k) {
        Vector right[C];
        for (int c = 0; c < C; ++c) right[c] = load(b + k * b_step + c * LANES);
        for (int r = 0; r < R; ++r) {
            const Vector left = all(a[r * a_row + k * a_step]);
            for (int c = 0; c < C; ++c) sum[r][c] += left * right[c];
        }
    }
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) store(to + r * to_row + c * LANES, sum[r][c]);
}

template <int C, bool ADD>
inline void product_rows(int rows, const float* a, long a_row, long a_step, const float* b, long b_step, long terms,
                         float* to, long to_row) {
    for (; rows >= ROWS; rows -= ROWS, a += ROWS * a_row, to += ROWS * to_row)
        product<ROWS, C, ADD>(a, a_row, a_step, b, b_step, terms, to, to_row);
    switch (rows) {
        case 5: product<5, C, ADD>(a, a_row, a_step, b, b_step, terms, to, to_row); break;
        case 4: product<4, C, ADD>(a, a_row, a_step, b, b_step, terms, to, to_row); break;
        case 3: product<3, C, ADD>(a, a_row, a_step, b, b_step, terms, to, to_row); break;
        case 2: product<2, C, ADD>(a, a_row, a_step, b, b_step, terms, to, to_row); break;
        case 1: product<1, C, ADD>(a, a_row, a_step, b, b_step, terms, to, to_row); break;
    }
}

template <bool ADD>
inline void product_block(int vectors, int rows, const float* a, long a_row, long a_step, const float* b, long b_step,
                          long terms, float* to, long to_row) {
    switch (vectors) {
        case 4: product_rows<std::min(4, COLUMNS), ADD>(rows, a, a_row, a_step, b, b_step, terms, to, to_row); break;
        case 3: product_rows<std::min(3, COLUMNS), ADD>(rows, a, a_row, a_step, b, b_step, terms, to, to_row); break;
        case 2: product_rows<2, ADD>(rows, a, a_row, a_step, b, b_step, terms, to, to_row); break;
        case 1: product_rows<1, ADD>(rows, a, a_row, a_step, b, b_step, terms, to, to_row); break;
    }
}

// U [place, block of columns, ci, columns of the block] of filters g [co, ci, 3, 3] with any strides of co and ci
void transform_filters(const float* g, long co_step, long ci_step, int ci, int co, float* U, int threads) {
    const int wide = padded(co);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < ci; ++i)
        for (int o = 0; o < wide; o += LANES) {
            Vector filter[9]{}, u[PLACES];
            for (int lane = 0; lane < std::min(LANES, co - o); ++lane)
                for (int tap = 0; tap < 9; ++tap) filter[tap][lane] = g[(o + lane) * co_step + i * ci_step + tap];
            both_ways<3, IN, filter_line>(filter, u);
            const int block = o / (COLUMNS * LANES) * COLUMNS * LANES, columns = std::min(COLUMNS * LANES, wide - block);
            for (int p = 0; p < PLACES; ++p)
                store(U + (long(p) * wide + block) * ci + long(i) * columns + o - block, u[p]);
        }
}

}  // namespace

extern "C" {

// y [n, h, w, co] = filters g * x [n, h, w, ci] (+ bias); returns whether there was memory for it
int convolve(const float* x, const float* g, long co_step, long ci_step, const float* bias, float* y, long n, int h,
             int w, int ci, int co, int threads) {
    const Grid grid(h, w);
    const int wide = padded(co);
    const long tiles = n * grid.per_image();
    const long room = std::max<long>(ROWS, 900 * 1024 / (PLACES * sizeof(float) * (ci + wide)) / ROWS * ROWS);
    const long chunk = std::min(room, tiles), chunks = (tiles + chunk - 1) / chunk;
    Buffer U = buffer(std::size_t(PLACES) * ci * wide), work = buffer(std::size_t(threads) * PLACES * chunk * (ci + wide));
    if (!U || !work) return 0;
    transform_filters(g, co_step, ci_step, ci, co, U.get(), threads);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (long part = 0; part < chunks; ++part) {
        float* V = work.get() + std::size_t(omp_get_thread_num()) * PLACES * chunk * (ci + wide);
        float* M = V + std::size_t(PLACES) * chunk * ci;
        const long first = part * chunk, count = std::min(chunk, tiles - first);
        for (long t = 0; t < count; ++t)
            for (int c = 0; c < ci; c += LANES) {
                Vector d[PLACES], v[PLACES];
                read_tile<IN, 1>(x, grid, ci, first + t, c, d);
                both_ways<IN, IN, input_line>(d, v);
                for (int p = 0; p < PLACES; ++p) write(V + (p * chunk + t) * ci + c, v[p], ci - c);
            }
        for (int p = 0; p < PLACES; ++p)
            for (int o = 0; o < wide; o += COLUMNS * LANES) {
                const int columns = std::min(COLUMNS * LANES, wide - o);
                product_block<false>(columns / LANES, int(count), V + p * chunk * ci, ci, 1,
                                     U.get() + (long(p) * wide + o) * ci, columns, ci, M + p * chunk * wide + o, wide);
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

// gradient [stretches, co, ci, 3, 3] of the filters, from inputs x and slopes at the outputs, apart for each stretch
// of images [ends[s - 1], ends[s]); returns whether there was memory for it
int weight_gradients(const float* x, const float* slopes, const long* ends, int stretches, float* gradient, int h, int w,
                     int ci, int co, int threads) {
    const Grid grid(h, w);
    const int wide = padded(co);
    const long most = 256;  // tiles whose transforms stay in the cache
    Buffer dU = buffer(std::size_t(PLACES) * ci * wide);
    Buffer V = buffer(std::size_t(PLACES) * most * ci), Z = buffer(std::size_t(PLACES) * most * wide);
    if (!dU || !V || !Z) return 0;
    for (int s = 0; s < stretches; ++s) {
        const long begin = (s ? ends[s - 1] : 0) * grid.per_image(), end = ends[s] * grid.per_image();
        std::memset(dU.get(), 0, std::size_t(PLACES) * ci * wide * sizeof(float));
        for (long first = begin; first < end; first += most) {
            const long count = std::min(most, end - first);
#pragma omp parallel num_threads(threads)
            {
#pragma omp for schedule(static)
                for (long t = 0; t < count; ++t) {
                    Vector d[PLACES], v[PLACES], y[OUT * OUT];
                    for (int c = 0; c < ci; c += LANES) {
                        read_tile<IN, 1>(x, grid, ci, first + t, c, d);
                        both_ways<IN, IN, input_line>(d, v);
                        for (int p = 0; p < PLACES; ++p) write(V.get() + (p * most + t) * ci + c, v[p], ci - c);
                    }
                    for (int o = 0; o < wide; o += LANES) {
                        read_tile<OUT, 0>(slopes, grid, co, first + t, o, y);
                        both_ways<OUT, IN, output_line_adjoint>(y, v);
                        for (int p = 0; p < PLACES; ++p) store(Z.get() + (p * most + t) * wide + o, v[p]);
                    }
                }
#pragma omp for schedule(dynamic)
                for (int p = 0; p < PLACES; ++p)
                    for (int o = 0; o < wide; o += COLUMNS * LANES)
                        product_block<true>(std::min(COLUMNS, (wide - o) / LANES), ci, V.get() + p * most * ci, 1, ci,
                                            Z.get() + p * most * wide + o, wide, count,
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

// y [n, h/2, w/2, c] = mean over 2x2 of relu(gamma * (x - mean) * scale + beta); keeps mean and scale [n, c]
void block_forward(const float* x, const float* gamma, const float* beta, float epsilon, float* y, float* mean,
                   float* scale, long n, int h, int w, int c, int threads) {
    const int down = h / 2, across = w / 2, pixels = h * w;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long i = 0; i < n; ++i)
        for (int k = 0; k < c; k += LANES) {
            const int count = c - k;
            const float* from = x + i * pixels * c + k;
            const Vector shift = read(from, count);
            Vector sum{}, squares{};
            for (int pixel = 0; pixel < pixels; ++pixel) {
                const Vector value = read(from + long(pixel) * c, count) - shift;
                sum += value;
                squares += value * value;
            }
            sum /= float(pixels);
            Vector variance = squares / float(pixels) - sum * sum, factor;
            for (int lane = 0; lane < LANES; ++lane) factor[lane] = 1 / std::sqrt(std::max(variance[lane], 0.0f) + epsilon);
            const Vector middle = sum + shift;
            write(mean + i * c + k, middle, count);
            write(scale + i * c + k, factor, count);
            const Vector slope = read(gamma + k, count) * factor, level = read(beta + k, count) - slope * middle;
            for (int row = 0; row < down; ++row)
                for (int column = 0; column < across; ++column) {
                    const float* corner = from + (long(2 * row) * w + 2 * column) * c;
                    Vector total{};
                    for (int r = 0; r < 2; ++r)
                        for (int s = 0; s < 2; ++s) {
                            const Vector value = slope * read(corner + (long(r) * w + s) * c, count) + level;
                            total += value > 0 ? value : Vector{};
                        }
                    write(y + ((i * down + row) * across + column) * c + k, total * 0.25f, count);
                }
        }
}

}  // extern "C"

namespace {

constexpr int SPAN = 8;  // vectors of channels that are taken together, so that memory is walked through in long strides

// One image and up to SPAN vectors of channels of a block: its inputs, and the slopes dy at its outputs.
struct Slice {
    const float *x, *dy;
    int h, w, c, count, vectors;
    Vector gamma[SPAN], beta[SPAN], mean[SPAN], scale[SPAN];

    Slice(const float* x_, const float* dy_, const float* gamma_, const float* beta_, const float* mean_,
          const float* scale_, long i, int k, int h_, int w_, int c_)
        : x(x_ + i * h_ * w_ * c_ + k), dy(dy_ + i * (h_ / 2) * (w_ / 2) * c_ + k), h(h_), w(w_), c(c_),
          count(std::min(SPAN * LANES, c_ - k)), vectors((count + LANES - 1) / LANES) {
        for (int v = 0; v < vectors; ++v) {
            const int channel = k + v * LANES;
            gamma[v] = read(gamma_ + channel, c - channel);
            beta[v] = read(beta_ + channel, c - channel);
            mean[v] = read(mean_ + i * c + channel, c - channel);
            scale[v] = read(scale_ + i * c + channel, c - channel);
        }
    }

    inline Vector get(const float* from, int v) const { return read(from + v * LANES, count - v * LANES); }
    inline void put(float* to, int v, Vector value) const { write(to + v * LANES, value, count - v * LANES); }

    // Calls visit(pixel, v, z, open, place): z is the normalised x, `open` the gradient that comes back through pooling
    // and ReLU, place the number of the pixel's 2x2 window. Pixels beyond the last window have no gradient, and place -1.
    template <typename Visit> inline void each(Visit visit) const {
        const int down = h / 2, across = w / 2;
        for (int row = 0; row < h; ++row)
            for (int column = 0; column < w; ++column) {
                const long pixel = long(row) * w + column;
                const long place = row / 2 < down && column / 2 < across ? long(row / 2) * across + column / 2 : -1;
                for (int v = 0; v < vectors; ++v) {
                    const Vector z = (get(x + pixel * c, v) - mean[v]) * scale[v];
                    const Vector above = place < 0 ? Vector{} : get(dy + place * c, v) * 0.25f;
                    visit(pixel, v, z, z * gamma[v] + beta[v] > 0 ? above : Vector{}, place);
                }
            }
    }
};

}  // namespace

extern "C" {

// dx [n, h, w, c], and the gradients of gamma and beta for each image [n, c], from dy [n, h/2, w/2, c]
void block_backward(const float* dy, const float* x, const float* gamma, const float* beta, const float* mean,
                    const float* scale, float* dx, float* dgamma, float* dbeta, long n, int h, int w, int c, int threads) {
    const float share = 1.0f / (h * w);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long i = 0; i < n; ++i)
        for (int k = 0; k < c; k += SPAN * LANES) {
            const Slice s(x, dy, gamma, beta, mean, scale, i, k, h, w, c);
            Vector sum[SPAN]{}, product[SPAN]{}, outside[SPAN];
            s.each([&](long, int v, Vector z, Vector open, long) {
                sum[v] += open;
                product[v] += open * z;
            });
            for (int v = 0; v < s.vectors; ++v) {
                s.put(dgamma + i * c + k, v, product[v]);
                s.put(dbeta + i * c + k, v, sum[v]);
                sum[v] *= share;
                product[v] *= share;
                outside[v] = s.gamma[v] * s.scale[v];
            }
            float* to = dx + i * h * w * c + k;
            s.each([&](long pixel, int v, Vector z, Vector open, long) {
                s.put(to + pixel * c, v, outside[v] * (open - sum[v] - z * product[v]));
            });
        }
}

// The gradient of <u, dx>: with respect to dy [n, h/2, w/2, c], and with respect to x [n, h, w, c]. With z the normalised
// x, r its scale, m the pixels, v = gamma * open the gradient of z, and P v = v - mean(v) - z mean(v z), dx is r P v, so
//   d/dv = r P u,   d/dx = -r^2 / m [(<u, v> - m mean(u) mean(v) - <u, z> <v, z> / m) z + <v, z> P u + <u, z> P v].
void block_double_backward(const float* u, const float* dy, const float* x, const float* gamma, const float* beta,
                           const float* mean, const float* scale, float* for_dy, float* for_x, long n, int h, int w,
                           int c, int threads) {
    const int windows = (h / 2) * (w / 2), m = h * w;
    const float share = 1.0f / m;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long i = 0; i < n; ++i)
        for (int k = 0; k < c; k += SPAN * LANES) {
            const Slice s(x, dy, gamma, beta, mean, scale, i, k, h, w, c);
            const float* from = u + i * m * c + k;
            Vector us[SPAN]{}, vs[SPAN]{}, uv[SPAN]{}, uz[SPAN]{}, vz[SPAN]{};
            s.each([&](long pixel, int v, Vector z, Vector open, long) {
                const Vector value = s.get(from + pixel * c, v);
                us[v] += value;
                vs[v] += open;
                uv[v] += value * open;
                uz[v] += value * z;
                vz[v] += open * z;
            });
            float *to_x = for_x + i * m * c + k, *to_dy = for_dy + i * windows * c + k;
            for (int v = 0; v < s.vectors; ++v) {
                us[v] *= share;
                uz[v] *= share;
                vs[v] *= share * s.gamma[v];
                vz[v] *= share * s.gamma[v];
                uv[v] = uv[v] * share * s.gamma[v] - us[v] * vs[v] - uz[v] * vz[v];
                for (long place = 0; place < windows; ++place) s.put(to_dy + place * c, v, Vector{});
            }
            s.each([&](long pixel, int v, Vector z, Vector open, long place) {
                const Vector Pu = s.get(from + pixel * c, v) - us[v] - z * uz[v];
                const Vector Pv = s.gamma[v] * open - vs[v] - z * vz[v];
                s.put(to_x + pixel * c, v, -s.scale[v] * s.scale[v] * (uv[v] * z + vz[v] * Pu + uz[v] * Pv));
                if (place < 0) return;
                const Vector back = 0.25f * s.gamma[v] * s.scale[v] * Pu;
                float* to = to_dy + place * c;
                s.put(to, v, s.get(to, v) + (z * s.gamma[v] + s.beta[v] > 0 ? back : Vector{}));
            });
        }
}

}  // extern "C"

/* Train a small convolutional network from the C header of a condensed set, as a microcontroller would: float32, SGD
   with momentum, no heap, nothing but the C library. All memory is static; the program prints how much it is.

   mipset export clothes.safetensors --to c --out set.h
   cc -O2 -I. train.c -o train -lm
   ./train test.bin 600 1 3 10    trains on S_[1], S_[3] and S_[10], 600 steps each, and prints a line for each
   ./train --images 2             writes the training images of S_[2], float32 and normalised, to check the decoding

   test.bin holds one record after the other: a byte for the label, then the bytes of an image, channel by channel. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "set.h"

#define CH SET_CHANNELS
#define H SET_HEIGHT
#define W SET_WIDTH
#define TILES (SET_FACTOR * SET_FACTOR)
#define PIXELS (CH * H * W)
#define F1 8 /* filters of the first and of the second convolution */
#define F2 16
#define H2 (H / 2)
#define W2 (W / 2)
#define H4 (H2 / 2)
#define W4 (W2 / 2)
#define FEATURES (F2 * H4 * W4)
#define BATCH 16
#define RATE 0.02f
#define MOMENTUM 0.9f
#define SHIFT 2 /* images are moved by up to so many pixels */

/* The network: two convolutions 3 x 3, each with ReLU and average pooling 2 x 2, and a linear classifier. */
typedef struct {
    float conv1[F1 * CH * 9], bias1[F1], conv2[F2 * F1 * 9], bias2[F2], linear[SET_CLASSES * FEATURES], bias[SET_CLASSES];
} Weights;
#define WEIGHTS ((int)(sizeof(Weights) / sizeof(float)))

static Weights theta, gradient, velocity;
static float image[PIXELS], moved[PIXELS];
static float a1[F1 * H * W], p1[F1 * H2 * W2], a2[F2 * H2 * W2], p2[FEATURES], scores[SET_CLASSES];
static float da1[F1 * H * W], dp1[F1 * H2 * W2], da2[F2 * H2 * W2], dp2[FEATURES];

static uint32_t state = 1;

static float uniform(void) { /* xorshift: a number in [0, 1) */
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return (float)(state >> 8) / 16777216.0f;
}

static int below(int n) { return (int)(uniform() * (float)n); }

/* Two neighbours of each pixel of an enlarged side, and the weight of the second ("Decoding" in FORMAT.md). */
static void neighbours(int place, int length, int enlarged, int *i, int *j, float *share) {
    float s = ((float)place + 0.5f) * (float)length / (float)enlarged - 0.5f;
    if (s < 0) s = 0;
    *i = (int)s, *j = *i + 1 < length ? *i + 1 : length - 1, *share = s - (float)*i;
}

static float stored_value(const uint8_t *stored, int c, int y, int x) { /* short tiles are padded with 0.5 */
    return y < H && x < W ? (float)stored[(c * H + y) * W + x] / 255.0f : 0.5f;
}

/* Training image `number` of the set, counted rank by rank, class by class, tile by tile. Returns its label. */
static int decode(int number, float *out) {
    const uint8_t *stored = set_images + (long)(number / TILES) * SET_IMAGE_BYTES;
    const int th = (H + SET_FACTOR - 1) / SET_FACTOR, tw = (W + SET_FACTOR - 1) / SET_FACTOR;
    const int top = number % TILES / SET_FACTOR * th, left = number % SET_FACTOR * tw;
    for (int c = 0; c < CH; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                int i, j, k, m;
                float a, b, upper, lower;
                neighbours(y, th, H, &i, &j, &a), neighbours(x, tw, W, &k, &m, &b);
                upper = (1 - b) * stored_value(stored, c, top + i, left + k) + b * stored_value(stored, c, top + i, left + m);
                lower = (1 - b) * stored_value(stored, c, top + j, left + k) + b * stored_value(stored, c, top + j, left + m);
                out[(c * H + y) * W + x] = ((1 - a) * upper + a * lower - set_mean[c]) / set_std[c];
            }
    return SET_LABEL(number / TILES);
}

/* The image, moved by some pixels; what comes in is 0, the mean. */
static void shift(const float *in, float *out, int down, int right) {
    for (int c = 0; c < CH; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                const int v = y - down, u = x - right;
                out[(c * H + y) * W + x] = v >= 0 && v < H && u >= 0 && u < W ? in[(c * H + v) * W + u] : 0;
            }
}

static void convolve(const float *in, int ci, int h, int w, const float *weights, const float *bias, int co, float *out) {
    for (int o = 0; o < co; o++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                float sum = bias[o];
                for (int c = 0; c < ci; c++)
                    for (int v = y > 0 ? 0 : 1; v < 3 && y + v - 1 < h; v++)
                        for (int u = x > 0 ? 0 : 1; u < 3 && x + u - 1 < w; u++)
                            sum += weights[((o * ci + c) * 3 + v) * 3 + u] * in[(c * h + y + v - 1) * w + x + u - 1];
                out[(o * h + y) * w + x] = sum > 0 ? sum : 0; /* ReLU */
            }
}

/* Add the gradients of weights and bias; `in_slopes` gets that of the input, unless it is NULL. */
static void convolve_back(const float *in, int ci, int h, int w, const float *weights, int co, const float *slopes,
                          float *weight_slopes, float *bias_slopes, float *in_slopes) {
    if (in_slopes) memset(in_slopes, 0, sizeof(float) * (size_t)(ci * h * w));
    for (int o = 0; o < co; o++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                const float slope = slopes[(o * h + y) * w + x];
                if (slope == 0) continue;
                bias_slopes[o] += slope;
                for (int c = 0; c < ci; c++)
                    for (int v = y > 0 ? 0 : 1; v < 3 && y + v - 1 < h; v++)
                        for (int u = x > 0 ? 0 : 1; u < 3 && x + u - 1 < w; u++) {
                            const int at = ((o * ci + c) * 3 + v) * 3 + u, from = (c * h + y + v - 1) * w + x + u - 1;
                            weight_slopes[at] += slope * in[from];
                            if (in_slopes) in_slopes[from] += slope * weights[at];
                        }
            }
}

static void pool(const float *in, int channels, int h, int w, float *out) {
    for (int c = 0; c < channels; c++)
        for (int y = 0; y < h / 2; y++)
            for (int x = 0; x < w / 2; x++) {
                const float *corner = in + (c * h + 2 * y) * w + 2 * x;
                out[(c * (h / 2) + y) * (w / 2) + x] = (corner[0] + corner[1] + corner[w] + corner[w + 1]) / 4;
            }
}

/* The gradient before ReLU and pooling. */
static void pool_back(const float *activations, int channels, int h, int w, const float *slopes, float *out) {
    for (int c = 0; c < channels; c++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                const int at = (c * h + y) * w + x, inside = y / 2 < h / 2 && x / 2 < w / 2 && activations[at] > 0;
                out[at] = inside ? slopes[(c * (h / 2) + y / 2) * (w / 2) + x / 2] / 4 : 0;
            }
}

static int classify(const float *in) {
    int best = 0;
    convolve(in, CH, H, W, theta.conv1, theta.bias1, F1, a1), pool(a1, F1, H, W, p1);
    convolve(p1, F1, H2, W2, theta.conv2, theta.bias2, F2, a2), pool(a2, F2, H2, W2, p2);
    for (int k = 0; k < SET_CLASSES; k++) {
        scores[k] = theta.bias[k];
        for (int f = 0; f < FEATURES; f++) scores[k] += theta.linear[k * FEATURES + f] * p2[f];
        if (scores[k] > scores[best]) best = k;
    }
    return best;
}

/* Add the gradient of the cross-entropy of one image. */
static void learn(const float *in, int label) {
    float largest, sum = 0;
    largest = scores[classify(in)];
    for (int k = 0; k < SET_CLASSES; k++) sum += scores[k] = expf(scores[k] - largest);
    memset(dp2, 0, sizeof dp2);
    for (int k = 0; k < SET_CLASSES; k++) {
        const float slope = scores[k] / sum - (k == label);
        gradient.bias[k] += slope;
        for (int f = 0; f < FEATURES; f++) {
            gradient.linear[k * FEATURES + f] += slope * p2[f];
            dp2[f] += slope * theta.linear[k * FEATURES + f];
        }
    }
    pool_back(a2, F2, H2, W2, dp2, da2);
    convolve_back(p1, F1, H2, W2, theta.conv2, F2, da2, gradient.conv2, gradient.bias2, dp1);
    pool_back(a1, F1, H, W, dp1, da1);
    convolve_back(in, CH, H, W, theta.conv1, F1, da1, gradient.conv1, gradient.bias1, NULL);
}

static void start(float *weights, int count, int inputs) { /* uniform, with the variance of He */
    const float reach = sqrtf(6.0f / (float)inputs);
    for (int i = 0; i < count; i++) weights[i] = reach * (2 * uniform() - 1);
}

static void train(int images, int steps) {
    float *w = (float *)&theta, *g = (float *)&gradient, *v = (float *)&velocity;
    state = 1;
    memset(&theta, 0, sizeof theta), memset(&velocity, 0, sizeof velocity);
    start(theta.conv1, F1 * CH * 9, CH * 9), start(theta.conv2, F2 * F1 * 9, F1 * 9);
    start(theta.linear, SET_CLASSES * FEATURES, FEATURES);
    for (int step = 0; step < steps; step++) {
        const float rate = step < 2 * steps / 3 ? RATE : RATE / 5;
        memset(&gradient, 0, sizeof gradient);
        for (int i = 0; i < BATCH; i++) {
            const int label = decode(below(images), image);
            shift(image, moved, below(2 * SHIFT + 1) - SHIFT, below(2 * SHIFT + 1) - SHIFT);
            learn(moved, label);
        }
        for (int i = 0; i < WEIGHTS; i++) v[i] = MOMENTUM * v[i] + g[i] / BATCH, w[i] -= rate * v[i];
    }
}

/* Test images of the file that are classified correctly, in percent; -1 if it cannot be read. */
static double test(const char *path) {
    static uint8_t record[1 + PIXELS];
    long right = 0, count = 0;
    size_t got;
    FILE *file = fopen(path, "rb");
    if (!file) return -1;
    while ((got = fread(record, 1, sizeof record, file)) == sizeof record) {
        for (int i = 0; i < PIXELS; i++)
            image[i] = ((float)record[1 + i] / 255.0f - set_mean[i / (H * W)]) / set_std[i / (H * W)];
        right += classify(image) == record[0], count++;
    }
    fclose(file);
    return got || !count ? -1 : 100.0 * (double)right / (double)count;
}

static int refuse(const char *what) {
    fprintf(stderr, "%s\n", what);
    return 2;
}

int main(int count, char **arguments) {
    if (count < 3) return refuse("usage: train TEST STEPS N... or train --images N");
    if (!strcmp(arguments[1], "--images")) {
        for (int i = 0; i < atoi(arguments[2]) * SET_CLASSES * TILES && i < SET_IMAGES * TILES; i++) {
            decode(i, image);
            fwrite(image, sizeof(float), PIXELS, stdout);
        }
        return 0;
    }
    printf("RAM: %lu bytes, flash for images: %lu bytes\n",
           (unsigned long)(3 * sizeof theta + sizeof image + sizeof moved + 2 * (sizeof a1 + sizeof p1 + sizeof a2 + sizeof p2) +
                           sizeof scores),
           (unsigned long)sizeof set_images);
    for (int i = 3; i < count; i++) {
        const int n = atoi(arguments[i]);
        double accuracy;
        if (n < 1 || n > SET_RANKS) return refuse("a size must be from 1 to SET_RANKS");
        train(n * SET_CLASSES * TILES, atoi(arguments[2]));
        if ((accuracy = test(arguments[1])) < 0) return refuse("the test images cannot be read, or are of another size");
        printf("n = %d: %.1f %%\n", n, accuracy);
        fflush(stdout);
    }
    return 0;
}

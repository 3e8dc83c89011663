/* SPDX-License-Identifier: MIT
 * Rows of ops.def in plain CUDA, as one writes them by hand: gpu_counts.py has nvcc compile them and counts what they
 * execute beside our kernels. A kernel is named by its row, behind how it is launched (gpu_plain.c):
 *
 *     point_   a thread for four elements          column_  32 columns a block, eight threads for a column
 *     row_     a warp for a row                    tile_    a block for 32 x 32 elements
 *
 * a and b are the operands, and b a norm's weights and bias; n elements in rows of m. NaN stays NaN, as in ours. */

#define KERNEL(name) \
    extern "C" __global__ void __launch_bounds__(256) \
        name(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ result, int n, int m)

static __device__ float4 four(const float *from, int i) { return reinterpret_cast<const float4 *>(from)[i]; }
static __device__ void put(float *to, int i, float4 v) { reinterpret_cast<float4 *>(to)[i] = v; }

/* --- Element by element */

#define POINT(name, of_x_and_y, second) \
    static __device__ float of_##name(float x, float y) { return of_x_and_y; } \
    KERNEL(point_##name) { \
        const int i = blockIdx.x * 256 + threadIdx.x; \
        if (4 * i >= n) return; \
        const float4 x = four(a, i), y = second; \
        put(result, i, make_float4(of_##name(x.x, y.x), of_##name(x.y, y.y), of_##name(x.z, y.z), \
                                   of_##name(x.w, y.w))); \
    }
#define ONE(name, of_x) POINT(name, of_x, x)
#define TWO(name, of_x_and_y) POINT(name, of_x_and_y, four(b, i))

ONE(exp, expf(x))
ONE(expm1, expm1f(x))
ONE(log, logf(x))
ONE(log1p, log1pf(x))
ONE(sqrt, sqrtf(x))
ONE(sin, sinf(x))
ONE(cos, cosf(x))
ONE(tan, tanf(x))
ONE(acos, acosf(x))
ONE(atan, atanf(x))
ONE(sinh, sinhf(x))
ONE(cosh, coshf(x))
ONE(tanh, tanhf(x))
ONE(erf, erff(x))
ONE(erfinv, erfinvf(tanhf(x)))
ONE(sigmoid, 1 / (1 + expf(-x)))
TWO(pow, powf(x, y))
TWO(add, x + y)
TWO(div, x / y)
ONE(relu, x < 0 ? 0 : x)
ONE(gelu, 0.5f * x * (1 + erff(x * 0.70710678f)))
ONE(silu, x / (1 + expf(-x)))
ONE(softplus, x > 20 ? x : log1pf(expf(x)))
ONE(mish, x * tanhf(log1pf(expf(x))))

/* --- Row by row */

enum { LANES = 32, ROWS = 8 /* of a block */ };

/* What a thread has of a row of M: every 32nd vector. */
#define EACH(i) for (int i = 0; i < M / LANES / 4; i++)
static __device__ int lane_at(int i) { return i * LANES + threadIdx.x % LANES; }
template <int M> static __device__ int at(int row, int i) { return row * (M / 4) + lane_at(i); }

#define BY_ROWS(name, M) \
    KERNEL(row_##name) { \
        const int row = blockIdx.x * ROWS + threadIdx.x / LANES; \
        if (row < n / M) name<M>(a, b, result, row); \
    }
#define ROW_OF(name) \
    template <int M> static __device__ void name(const float *a, const float *b, float *result, int row)

struct sum {
    static __device__ float of(float x, float y) { return x + y; }
};
struct maximum {
    static __device__ float of(float x, float y) { return fmaxf(x, y); }
};

/* Of all threads of the warp, for each of them. */
template <class Fold> static __device__ float of_warp(float v) {
    for (int other = LANES / 2; other > 0; other /= 2) v = Fold::of(v, __shfl_xor_sync(~0u, v, other));
    return v;
}

static __device__ float sum_of(float4 v) { return v.x + v.y + v.z + v.w; }
static __device__ float most_of(float4 v) { return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }
static __device__ float4 times(float4 x, float4 y) { return make_float4(x.x * y.x, x.y * y.y, x.z * y.z, x.w * y.w); }
static __device__ float4 scaled(float4 x, float s) { return make_float4(x.x * s, x.y * s, x.z * s, x.w * s); }
static __device__ float4 plus(float4 x, float4 y) { return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w); }
static __device__ float4 moved(float4 x, float s) { return make_float4(x.x + s, x.y + s, x.z + s, x.w + s); }
static __device__ float4 exp_of(float4 x) { return make_float4(expf(x.x), expf(x.y), expf(x.z), expf(x.w)); }

ROW_OF(softmax) {
    float4 v[M / LANES / 4];
    float most = -INFINITY, s = 0;
    EACH(i) most = fmaxf(most, most_of(v[i] = four(a, at<M>(row, i))));
    most = of_warp<maximum>(most);
    EACH(i) s += sum_of(v[i] = exp_of(moved(v[i], -most)));
    s = 1 / of_warp<sum>(s);
    EACH(i) put(result, at<M>(row, i), scaled(v[i], s));
}
BY_ROWS(softmax, 1024)

ROW_OF(layer_norm) {
    float4 v[M / LANES / 4];
    float s = 0, squares = 0;
    EACH(i) s += sum_of(v[i] = four(a, at<M>(row, i)));
    s = -of_warp<sum>(s) / M;
    EACH(i) v[i] = moved(v[i], s), squares += sum_of(times(v[i], v[i]));
    s = rsqrtf(of_warp<sum>(squares) / M + 1e-5f);
    EACH(i) put(result, at<M>(row, i), plus(times(scaled(v[i], s), four(b, lane_at(i))), four(b + M, lane_at(i))));
}
BY_ROWS(layer_norm, 768)

ROW_OF(rms_norm) {
    float4 v[M / LANES / 4];
    float squares = 0;
    EACH(i) v[i] = four(a, at<M>(row, i)), squares += sum_of(times(v[i], v[i]));
    const float s = rsqrtf(of_warp<sum>(squares) / M + 1e-5f);
    EACH(i) put(result, at<M>(row, i), times(scaled(v[i], s), four(b, lane_at(i))));
}
BY_ROWS(rms_norm, 768)

ROW_OF(row_sum) {
    float s = 0;
    EACH(i) s += sum_of(four(a, at<M>(row, i)));
    s = of_warp<sum>(s);
    if (threadIdx.x % LANES == 0) result[row] = s;
}
BY_ROWS(row_sum, 1024)

/* --- By columns */

KERNEL(column_column_sum) {
    __shared__ float sums[8][32];
    const int x = threadIdx.x % 32, y = threadIdx.x / 32, column = blockIdx.x * 32 + x;
    float s = 0;
    for (int row = y; row < n / m; row += 8) s += a[(size_t)row * m + column];
    sums[y][x] = s;
    __syncthreads();
    if (y) return;
    for (int i = 1; i < 8; i++) s += sums[i][x];
    result[column] = s;
}

KERNEL(tile_transpose) {
    __shared__ float tile[32][33];
    const int x = threadIdx.x % 32, y = threadIdx.x / 32, rows = n / m;
    const int column = blockIdx.x % (m / 32) * 32, row = blockIdx.x / (m / 32) * 32;
    for (int i = 0; i < 32; i += 8) tile[y + i][x] = a[(size_t)(row + y + i) * m + column + x];
    __syncthreads();
    for (int i = 0; i < 32; i += 8) result[(size_t)(column + y + i) * rows + row + x] = tile[x][y + i];
}

/* SPDX-License-Identifier: MIT
 * Rows of ops.def in plain CUDA, as one writes them by hand: gpu_counts.py has nvcc compile them and counts what they
 * execute beside our kernels. A kernel is named by its row, behind how it is launched (gpu_plain.c):
 *
 *     point_   a thread for four elements          column_  32 columns a block, eight threads for a column
 *     row_     a block for a row, as point_        tile_    a block for 32 x 32 elements
 *
 * a and b are the operands, and b a norm's weights and bias; n elements in rows of m. */

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
ONE(tanh, tanhf(x))
ONE(erf, erff(x))
ONE(erfinv, erfinvf(tanhf(x)))
ONE(sigmoid, 1 / (1 + expf(-x)))
TWO(pow, powf(x, y))
TWO(add, x + y)
TWO(div, x / y)
ONE(relu, fmaxf(x, 0))
ONE(gelu, 0.5f * x * (1 + erff(x * 0.70710678f)))
ONE(silu, x / (1 + expf(-x)))
ONE(softplus, x > 20 ? x : log1pf(expf(x)))
ONE(mish, x *tanhf(log1pf(expf(x))))

/* --- Row by row */

struct sum {
    static __device__ float of(float x, float y) { return x + y; }
};
struct maximum {
    static __device__ float of(float x, float y) { return fmaxf(x, y); }
};

/* Of all threads of the block, for each of them. */
template <class Fold> static __device__ float of_block(float v) {
    __shared__ float of_warp[8];
    for (int other = 16; other > 0; other /= 2) v = Fold::of(v, __shfl_xor_sync(~0u, v, other));
    __syncthreads(); /* what an earlier call left is read */
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
    __syncthreads();
    v = of_warp[0];
    for (int i = 1; i < blockDim.x / 32; i++) v = Fold::of(v, of_warp[i]);
    return v;
}

static __device__ float sum_of(float4 v) { return v.x + v.y + v.z + v.w; }
static __device__ float4 times(float4 x, float4 y) { return make_float4(x.x * y.x, x.y * y.y, x.z * y.z, x.w * y.w); }
static __device__ float4 scaled(float4 x, float s) { return make_float4(x.x * s, x.y * s, x.z * s, x.w * s); }
static __device__ float4 plus(float4 x, float4 y) { return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w); }
static __device__ float4 moved(float4 x, float s) { return make_float4(x.x + s, x.y + s, x.z + s, x.w + s); }

static __device__ float4 of_row(const float *a, int m) { return four(a + (size_t)blockIdx.x * m, threadIdx.x); }
static __device__ void put_row(float *to, int m, float4 v) { put(to + (size_t)blockIdx.x * m, threadIdx.x, v); }

KERNEL(row_softmax) {
    float4 v = of_row(a, m);
    v = moved(v, -of_block<maximum>(fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w))));
    v = make_float4(expf(v.x), expf(v.y), expf(v.z), expf(v.w));
    put_row(result, m, scaled(v, 1 / of_block<sum>(sum_of(v))));
}

KERNEL(row_layer_norm) {
    float4 v = of_row(a, m);
    v = moved(v, -of_block<sum>(sum_of(v)) / m);
    const float s = rsqrtf(of_block<sum>(sum_of(times(v, v))) / m + 1e-5f);
    put_row(result, m, plus(times(scaled(v, s), four(b, threadIdx.x)), four(b + m, threadIdx.x)));
}

KERNEL(row_rms_norm) {
    const float4 v = of_row(a, m);
    const float s = rsqrtf(of_block<sum>(sum_of(times(v, v))) / m + 1e-5f);
    put_row(result, m, times(scaled(v, s), four(b, threadIdx.x)));
}

KERNEL(row_row_sum) {
    const float s = of_block<sum>(sum_of(of_row(a, m)));
    if (threadIdx.x == 0) result[blockIdx.x] = s;
}

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
    for (int i = y; i < 32; i += 8) tile[i][x] = a[(size_t)(row + i) * m + column + x];
    __syncthreads();
    for (int i = y; i < 32; i += 8) result[(size_t)(column + i) * rows + row + x] = tile[x][i];
}

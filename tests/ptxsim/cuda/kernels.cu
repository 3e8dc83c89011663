/* SPDX-License-Identifier: MIT
 * Kernels as users of CUDA write them, for the stand-in to run: what nvcc makes of them is not what our emitter makes.
 * kernels.ptx is this file as
 *     nvcc -ptx -arch=sm_80 -o kernels.ptx kernels.cu
 * has it. test_ptxsim_nvcc.c launches each with `n` elements of `in` and compares `out` with the CPU. */
#include <cuda_pipeline.h>
#include <cuda_fp16.h>
#include <mma.h>

#define KERNEL(name, in_type, out_type) \
    extern "C" __global__ void __launch_bounds__(256) name(const in_type *__restrict__ in, out_type *out, int n)

/* A sum of each block: shuffles within warps, shared memory between them. */
__device__ float warp_sum(float v) {
    for (int d = 16; d; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    return v;
}

KERNEL(block_sum, float, float) {
    __shared__ float of_warps[32];
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += in[i];
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = warp_sum(threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) out[blockIdx.x] = v;
    }
}

/* The place of the largest element: two shuffles a step, ties to the first. */
KERNEL(block_argmax, float, int) {
    __shared__ float most[8];
    __shared__ int where[8];
    float v = -INFINITY;
    int at = n;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (in[i] > v) v = in[i], at = i;
    for (int d = 16; d; d /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, v, d);
        int place = __shfl_xor_sync(0xffffffffu, at, d);
        if (other > v || (other == v && place < at)) v = other, at = place;
    }
    if (threadIdx.x % 32 == 0) most[threadIdx.x / 32] = v, where[threadIdx.x / 32] = at;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; w++)
            if (most[w] > v || (most[w] == v && where[w] < at)) v = most[w], at = where[w];
        *out = at;
    }
}

/* An n x n product through tiles in shared memory; n is no multiple of the tile. Blocks of 16 x 16 threads. */
KERNEL(tiled_product, float, float) {
    enum { TILE = 16 };
    __shared__ float a[TILE][TILE], b[TILE][TILE + 1];
    const float *left = in, *right = in + n * n;
    const int x = threadIdx.x % TILE, y = threadIdx.x / TILE, across = (n + TILE - 1) / TILE;
    const int row = blockIdx.x / across * TILE + y, column = blockIdx.x % across * TILE + x;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        a[y][x] = row < n && k + x < n ? left[row * n + k + x] : 0.0f;
        b[y][x] = column < n && k + y < n ? right[(k + y) * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum = fmaf(a[y][i], b[i][x], sum);
        __syncthreads();
    }
    if (row < n && column < n) out[row * n + column] = sum;
}

/* A 16 x 16 tile of an n x n product a warp, by tensor cores; B is stored by columns. */
KERNEL(wmma_half, half, float) {
    using namespace nvcuda::wmma;
    const int tiles = n / 16, warp = blockIdx.x * blockDim.x / 32 + threadIdx.x / 32;
    const int row = warp / tiles * 16, column = warp % tiles * 16;
    if (row >= n) return;
    fragment<matrix_a, 16, 16, 16, half, row_major> a;
    fragment<matrix_b, 16, 16, 16, half, col_major> b;
    fragment<accumulator, 16, 16, 16, float> c;
    fill_fragment(c, 1.0f);
    for (int k = 0; k < n; k += 16) {
        load_matrix_sync(a, in + row * n + k, n);
        load_matrix_sync(b, in + n * n + column * n + k, n);
        mma_sync(c, a, b, c);
    }
    for (int i = 0; i < c.num_elements; i++) c.x[i] *= 0.5f;
    store_matrix_sync(out + row * n + column, c, n, mem_row_major);
}

/* The same in tf32, through shared memory, with the result by columns. */
KERNEL(wmma_tf32, float, float) {
    using namespace nvcuda::wmma;
    __shared__ float tile[2][16 * 8];
    fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> a;
    fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> b;
    fragment<accumulator, 16, 16, 8, float> c;
    fill_fragment(c, 0.0f);
    for (int k = 0; k < n; k += 8) {
        __syncthreads();
        for (int i = threadIdx.x; i < 16 * 8; i += blockDim.x) {
            tile[0][i] = in[i / 8 * n + k + i % 8];
            tile[1][i] = in[16 * n + (k + i / 16) * 16 + i % 16];
        }
        __syncthreads();
        load_matrix_sync(a, tile[0], 8);
        load_matrix_sync(b, tile[1], 16);
        for (int i = 0; i < a.num_elements; i++) a.x[i] = __float_to_tf32(a.x[i]);
        for (int i = 0; i < b.num_elements; i++) b.x[i] = __float_to_tf32(b.x[i]);
        mma_sync(c, a, b, c);
    }
    if (threadIdx.x < 32) store_matrix_sync(out, c, 16, mem_col_major);
}

/* Means of five neighbours, from tiles that are copied asynchronously two ahead. */
KERNEL(copy_ahead, float, float) {
    enum { TILE = 256, STAGES = 3 };
    __shared__ __align__(16) float tile[STAGES][TILE];
    const int tiles = n / TILE;
    for (int t = 0; t < STAGES - 1; t++) {
        if (t < tiles && threadIdx.x < TILE / 4)
            __pipeline_memcpy_async(&tile[t][threadIdx.x * 4], in + t * TILE + threadIdx.x * 4, 16);
        __pipeline_commit();
    }
    for (int t = 0; t < tiles; t++) {
        if (t + STAGES - 1 < tiles && threadIdx.x < TILE / 4)
            __pipeline_memcpy_async(&tile[(t + STAGES - 1) % STAGES][threadIdx.x * 4],
                                    in + (t + STAGES - 1) * TILE + threadIdx.x * 4, 16);
        __pipeline_commit();
        __pipeline_wait_prior(STAGES - 1);
        __syncthreads();
        float sum = 0;
        for (int d = -2; d <= 2; d++) {
            int i = (int)threadIdx.x + d;
            sum += tile[t % STAGES][i < 0 ? 0 : i >= TILE ? TILE - 1 : i];
        }
        out[t * TILE + threadIdx.x] = sum / 5;
        __syncthreads();
    }
}

/* Counts by value: atomics in shared, then in global memory; a largest value by compare and swap. */
KERNEL(histogram, unsigned, unsigned) {
    enum { BINS = 64 };
    __shared__ unsigned count[BINS];
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) count[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&count[in[i] % BINS], 1u);
        unsigned old = out[BINS], seen;
        while (in[i] > old && (seen = atomicCAS(&out[BINS], old, in[i])) != old) old = seen;
        atomicXor(&out[BINS + 1], in[i]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) atomicAdd(&out[i], count[i]);
}

/* Keeps what is even, in order: votes give each thread its place. One block. */
KERNEL(compact, unsigned, unsigned) {
    __shared__ unsigned start[9];
    unsigned base = 0;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, before = (1u << lane) - 1;
    for (int first = 0; first < n; first += blockDim.x) {
        const int i = first + threadIdx.x;
        const bool keeps = i < n && in[i] % 2 == 0;
        const unsigned votes = __ballot_sync(0xffffffffu, keeps);
        if (lane == 0) start[warp + 1] = __popc(votes);
        __syncthreads();
        if (threadIdx.x == 0) {
            start[0] = base;
            for (int w = 0; w < blockDim.x / 32; w++) start[w + 1] += start[w];
        }
        __syncthreads();
        if (keeps) out[start[warp] + __popc(votes & before)] = in[i];
        base = start[blockDim.x / 32];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[n] = base;
    const bool any = __any_sync(0xffffffffu, in[lane] > 7), all = __all_sync(0xffffffffu, in[lane] > 7);
    const unsigned sum = __reduce_add_sync(0xffffffffu, lane);
    if (threadIdx.x == 0) out[n + 1] = sum + any * 1000 + all * 2000;
}

/* Steps until 1 of 3 n + 1, in loops that end when they will; the functions are called where threads are apart. */
__device__ __noinline__ unsigned step(unsigned v) { return v % 2 ? 3 * v + 1 : v / 2; }

KERNEL(collatz, unsigned, unsigned) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned v = in[i], steps = 0;
        while (v != 1) {
            if (v % 4 == 2) v = step(v);
            else if (v % 4 == 0) v = step(step(v)), steps++;
            else switch (v % 3) {
                case 0: v = step(v); break;
                case 1: v = step(step(v)), steps++; break;
                default: v = 3 * v + 1; break;
                }
            steps++;
        }
        out[i] = steps;
    }
}

/* Sorts 24 values a thread in an array of its own, which no register can hold, and gives their median and spread. */
KERNEL(sort_own, int, int) {
    enum { OWN = 24 };
    int own[OWN];
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    for (int i = 0; i < OWN; i++) own[i] = in[t * OWN + i];
    for (int i = 1; i < OWN; i++) {
        int v = own[i], j = i;
        for (; j > 0 && own[j - 1] > v; j--) own[j] = own[j - 1];
        own[j] = v;
    }
    out[2 * t] = own[OWN / 2 + (in[t * OWN] & 1)];
    out[2 * t + 1] = own[OWN - 1] - own[0];
}

/* Double: functions that the compiler writes out, conversions, and 64-bit integers. */
KERNEL(doubles, double, double) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double x = in[i];
    const long long whole = llrint(x * 1e6);
    double *to = out + 6 * (size_t)i;
    to[0] = exp(-x * x) + log1p(fabs(x));
    to[1] = sqrt(fabs(x)) / (1 + x * x);
    to[2] = sin(x) * exp2(x * 0.01);
    to[3] = (double)(whole / 37 * 1000 + whole % 37);
    to[4] = fma(x, x, -x) + floor(x) + copysign(1.0, x) + fmin(x, 0.25) + rint(x * 8);
    to[5] = (double)((float)x) + (double)__double2int_rz(x * 100) + (double)__double2ll_rd(x * 1000);
}

/* A lock that each thread of a warp takes in turn. */
KERNEL(locked, unsigned, unsigned) {
    __shared__ int lock;
    __shared__ volatile unsigned last;
    if (threadIdx.x == 0) lock = 0, last = in[0];
    __syncthreads();
    for (bool done = false; !done;)
        if (atomicCAS(&lock, 0, 1) == 0) {
            out[threadIdx.x] = last;
            last = last + 1;
            __threadfence_block();
            atomicExch(&lock, 0);
            done = true;
        }
}

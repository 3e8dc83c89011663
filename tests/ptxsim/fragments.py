#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where the elements of matrices lie in the registers of a warp: writes fragments.inc.

The layouts are facts about the hardware, as CUTLASS states them (include/cute/atom: mma_traits_sm75.hpp,
mma_traits_sm80.hpp, mma_traits_sm90.hpp, copy_traits_sm75.hpp). A layout maps (thread, value) to a number: shapes give
the digits of both, fastest first, strides what each digit counts. For A, B and C of a product the number is m + M k, n
+ N k, m + M n; for ldmatrix, the bit of what the warp moves.

    fragments.py >fragments.inc
"""

T = (4, 8)  # threads: lane % 4 and lane / 4

# name, rows of the matrix; shape and strides of threads, and of values.
LAYOUTS = {
    "C_8x8": (8, T, (16, 1), (2,), (8,)),
    "C_16x8": (16, T, (32, 1), (2, 2), (16, 8)),
    "B_8x4_WORD": (8, T, (8, 1), (1,), (0,)),
    "B_8x8_WORD": (8, T, (8, 1), (2,), (32,)),
    "B_8x16_WORD": (8, T, (8, 1), (4,), (32,)),
    "A_16x4_WORD": (16, T, (16, 1), (2,), (8,)),
    "A_16x8_WORD": (16, T, (16, 1), (2, 2), (8, 64)),
    "A_16x16_WORD": (16, T, (16, 1), (2, 4), (8, 64)),
    "B_8x8_HALF": (8, T, (16, 1), (2,), (8,)),
    "B_8x16_HALF": (8, T, (16, 1), (2, 2), (8, 64)),
    "A_16x8_HALF": (16, T, (32, 1), (2, 2), (16, 8)),
    "A_16x16_HALF": (16, T, (32, 1), (2, 2, 2), (16, 8, 128)),
    "B_8x16_BYTE": (8, T, (32, 1), (4,), (8,)),
    "B_8x32_BYTE": (8, T, (32, 1), (4, 2), (8, 128)),
    "A_16x16_BYTE": (16, T, (64, 1), (4, 2), (16, 8)),
    "A_16x32_BYTE": (16, T, (64, 1), (4, 2, 2), (16, 8, 256)),
}

PRODUCTS = [  # PTX's name, M, K, least compute capability, types (D A B C), and the layouts of A, B, C
    ("m16n8k8", 16, 8, 75, "f32.f16.f16.f32", "A_16x8_HALF", "B_8x8_HALF", "C_16x8"),
    ("m16n8k8", 16, 8, 75, "f16.f16.f16.f16", "A_16x8_HALF", "B_8x8_HALF", "C_16x8"),
    ("m16n8k16", 16, 16, 80, "f32.f16.f16.f32", "A_16x16_HALF", "B_8x16_HALF", "C_16x8"),
    ("m16n8k16", 16, 16, 80, "f16.f16.f16.f16", "A_16x16_HALF", "B_8x16_HALF", "C_16x8"),
    ("m16n8k8", 16, 8, 80, "f32.bf16.bf16.f32", "A_16x8_HALF", "B_8x8_HALF", "C_16x8"),
    ("m16n8k16", 16, 16, 80, "f32.bf16.bf16.f32", "A_16x16_HALF", "B_8x16_HALF", "C_16x8"),
    ("m16n8k4", 16, 4, 80, "f32.tf32.tf32.f32", "A_16x4_WORD", "B_8x4_WORD", "C_16x8"),
    ("m16n8k8", 16, 8, 80, "f32.tf32.tf32.f32", "A_16x8_WORD", "B_8x8_WORD", "C_16x8"),
    ("m8n8k4", 8, 4, 80, "f64.f64.f64.f64", "B_8x4_WORD", "B_8x4_WORD", "C_8x8"),
    ("m16n8k4", 16, 4, 90, "f64.f64.f64.f64", "A_16x4_WORD", "B_8x4_WORD", "C_16x8"),
    ("m16n8k8", 16, 8, 90, "f64.f64.f64.f64", "A_16x8_WORD", "B_8x8_WORD", "C_16x8"),
    ("m16n8k16", 16, 16, 90, "f64.f64.f64.f64", "A_16x16_WORD", "B_8x16_WORD", "C_16x8"),
    ("m8n8k16", 8, 16, 75, "s32.s8.s8.s32", "B_8x16_BYTE", "B_8x16_BYTE", "C_8x8"),
    ("m16n8k16", 16, 16, 80, "s32.s8.u8.s32", "A_16x16_BYTE", "B_8x16_BYTE", "C_16x8"),
    ("m16n8k32", 16, 32, 80, "s32.u8.s8.s32", "A_16x32_BYTE", "B_8x32_BYTE", "C_16x8"),
]

# matrices, transposed; source (thread, bit of 16 bytes) and destination (thread, bit of the registers)
PLAIN = ((32,), (32,))
TRANSPOSED = (T, (256, 16))
LOADS = [
    (1, False, ((8, 4), (128, 0), (128,), (1,)), PLAIN + ((32,), (1,))),
    (2, False, ((16, 2), (128, 0), (128,), (1,)), PLAIN + ((32, 2), (1, 1024))),
    (4, False, ((32,), (128,), (128,), (1,)), PLAIN + ((32, 4), (1, 1024))),
    (1, True, ((8, 4), (128, 0), (128,), (1,)), TRANSPOSED + ((16, 2), (1, 128))),
    (2, True, ((16, 2), (128, 0), (128,), (1,)), TRANSPOSED + ((16, 2, 2), (1, 128, 1024))),
    (4, True, ((32,), (128,), (128,), (1,)), TRANSPOSED + ((16, 2, 4), (1, 128, 1024))),
]


def dot(index, shape, stride):
    at = 0
    for extent, step in zip(shape, stride):
        at += index % extent * step
        index //= extent
    return at


def size(shape):
    n = 1
    for extent in shape:
        n *= extent
    return n


def numbers(threads, thread_step, values, value_step):
    """The number of each value of each thread."""
    return [[dot(t, threads, thread_step) + dot(v, values, value_step) for v in range(size(values))] for t in range(32)]


def lines(values):
    return ",\n    ".join(", ".join(map(str, row)) for row in values)


def main():
    print(
        "/* Made by fragments.py: do not edit. A line for each thread: the row and the column of each of its values. */"
    )
    for name, (rows, *layout) in LAYOUTS.items():
        places = [[x for n in values for x in (n % rows, n // rows)] for values in numbers(*layout)]
        print(f"LAYOUT({name},\n    {lines(places)})")
    for name, m, k, sm, types, *layouts in PRODUCTS:
        print(f'PRODUCT("{name}", {m}, {k}, {sm}, "{types}", {", ".join(layouts)})')
    print(
        "/* A line for each thread: the lane whose address 16 bits of its registers come from, "
        "and which of the eight there. */"
    )
    for n, transposed, source, destination in LOADS:
        place = {}
        for t, bits in enumerate(numbers(*source)):
            for v, bit in enumerate(bits):
                place.setdefault(bit, (t, v))
        halves = [
            [x for bit in row[::16] for x in (place[bit][0], place[bit][1] // 16)] for row in numbers(*destination)
        ]
        print(f"LOAD({n}, {int(transposed)},\n    {lines(halves)})")


main()

// Loads an input row into the registers of a block: groups of eight columns, kPerThread groups per thread, by 16-byte
// loads that are all in flight together.
#pragma once

#include "common.cuh"

// Eight adjacent values of a lane.
struct Values8 {
    float v[8];
};

// The groups of a thread. A block has the columns from a first one on.
template <u32 kThreads, u32 kPerThread> struct RowLoader {
    static constexpr u32 kGroups = kPerThread, kSpan = 8 * kThreads * kPerThread;
    Values8 of[kPerThread];

    static DEVICE_MEMBER u32 column(u32 first, u32 i) { return first + 8 * (kThreads * i + threadIdx.x); }
    // Columns after the last are 0. The number of columns is a multiple of four; `load_four` loads four at an address.
    template <class Load> DEVICE_MEMBER void load_fours(const float* row, u32 first, u32 cols, Load&& load_four) {
        const u32 own = first + 8 * threadIdx.x;
        row += own;
        UNROLL for (u32 i = 0; i < kPerThread; i++) UNROLL for (u32 half = 0; half < 2; half++) {
            const u32 ahead = 8 * kThreads * i + 4 * half;
            float4 four = {0.f, 0.f, 0.f, 0.f};
            if (own + ahead < cols) four = load_four(row + ahead);
            float* v = of[i].v + 4 * half;
            v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
        }
    }
    // Calls `f` with each value and its column, up to the end of the group that contains the last of `cols`.
    template <class F> DEVICE_MEMBER void each(u32 first, u32 cols, F&& f) {
        UNROLL for (u32 i = 0; i < kPerThread; i++) {
            if (first + 8 * kThreads * i >= cols) break;
            UNROLL for (u32 j = 0; j < 8; j++) f(of[i].v[j], column(first, i) + j);
        }
    }
    // Calls `f` with each value of both.
    template <class F> DEVICE_MEMBER void with(const RowLoader& other, u32 first, u32 cols, F&& f) {
        UNROLL for (u32 i = 0; i < kPerThread; i++) {
            if (first + 8 * kThreads * i >= cols) break;
            UNROLL for (u32 j = 0; j < 8; j++) f(of[i].v[j], other.of[i].v[j]);
        }
    }
    DEVICE_MEMBER float squares(float sum) const {
        UNROLL for (u32 i = 0; i < kPerThread; i++)
            UNROLL for (u32 j = 0; j < 8; j++) sum = fmaf(of[i].v[j], of[i].v[j], sum);
        return sum;
    }
};

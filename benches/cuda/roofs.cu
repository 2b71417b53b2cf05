// The roofs of a device, to which the speed of the kernels is compared: how fast it reads and copies memory, multiplies
// matrices of binary16 with sums in single precision, and starts kernels that wait for each other.
// Built by scripts/gpu-kit where nvcc is; prints a line per roof.
#include "../../kernels/common.cuh"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

static void check(cudaError_t status, const char* call) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(status));
    exit(1);
}
#define CHECK(call) check(call, #call)

constexpr u32 kThreads = 256;

// Different in every word, because some devices are faster on zeros.
__global__ void fill(u32* words, size_t n) {
    const size_t step = (size_t)gridDim.x * kThreads;
    for (size_t i = (size_t)blockIdx.x * kThreads + threadIdx.x; i < n; i += step) {
        u32 h = (u32)i * 2654435761u;
        h ^= h >> 15;
        words[i] = h * 2246822519u;
    }
}

// Reads all of `words`, eight loads of 16 bytes per thread at a time; the result keeps the loads alive.
__global__ void read(const uint4* words, size_t n, u32* result) {
    constexpr u32 kLoads = 8;
    const size_t step = (size_t)gridDim.x * kThreads;
    u32 sum = 0;
    size_t i = (size_t)blockIdx.x * kThreads + threadIdx.x;
    for (; i + (kLoads - 1) * step < n; i += kLoads * step) {
        uint4 v[kLoads];
#pragma unroll
        for (u32 k = 0; k < kLoads; k++) v[k] = __ldcs(words + i + k * step);
#pragma unroll
        for (u32 k = 0; k < kLoads; k++) sum ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    for (; i < n; i += step) sum ^= words[i].x ^ words[i].y ^ words[i].z ^ words[i].w;
    if (sum == 0x9e3779b9) *result = sum;
}

// Two random values of binary16 between 1 and 2.
__device__ u32 two_halves(u32 seed) { return (seed * 2654435761u & 0x03ff03ffu) | 0x3c003c00u; }

constexpr u32 kRounds = 2048;

// Multiplies operands that stay in registers and shared memory; `*products` is set to the number of multiply-adds.
__global__ void __launch_bounds__(kThreads) multiply(float* result, u32* products) {
    const uint4 a = {two_halves(threadIdx.x), two_halves(threadIdx.x + 1), two_halves(threadIdx.x + 2),
                     two_halves(threadIdx.x + 3)};
    float sum = 0;
#ifdef HAS_WGMMA
    // 16 x 256 halves, in rows of 32 bytes without swizzling: which value stands where does not matter.
    __shared__ __align__(1024) u32 b[2048];
    for (u32 i = threadIdx.x; i < 2048; i += kThreads) b[i] = two_halves(i);
    fence_async();
    __syncthreads();
    const u64 columns = (shared_address(b) & 0x3ffffu) >> 4 | 8ull << 16 | 16ull << 32;
    float d[32][4] = {};
    for (u32 round = 0; round < kRounds; round++) {
        begin_products();
        multiply_async(d, a, columns);
        commit_products();
        wait_products<1>();
    }
    end_products(d);
    for (u32 i = 0; i < 32; i++) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
    const u32 made = 64 * 256 * 16 / 128;
#else
    constexpr u32 kChains = 8;
    float d[kChains][4] = {};
    for (u32 round = 0; round < kRounds; round++) {
#pragma unroll
        for (u32 k = 0; k < kChains; k++) mma16x8x16(d[k], a, a.x ^ k, a.y ^ k);
    }
    for (u32 k = 0; k < kChains; k++) sum += d[k][0] + d[k][1] + d[k][2] + d[k][3];
    const u32 made = kChains * 16 * 8 * 16 / 32;
#endif
    if (sum == 12345.f) *result = sum;
    if (threadIdx.x == 0 && blockIdx.x == 0) *products = kRounds * made;
}

__global__ void nothing() {
    let_next_start();
    wait_for_previous();
}

static cudaStream_t stream;

// Returns the median seconds of some executions of `work`, recorded as a graph.
static double seconds(const std::function<void()>& work) {
    cudaGraph_t graph;
    cudaGraphExec_t recorded;
    cudaEvent_t from, to;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    work();
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&recorded, graph, 0));
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    std::vector<float> times;
    for (int i = 0; i < 13; i++) {
        CHECK(cudaEventRecord(from, stream));
        CHECK(cudaGraphLaunch(recorded, stream));
        CHECK(cudaEventRecord(to, stream));
        CHECK(cudaStreamSynchronize(stream));
        float milliseconds;
        CHECK(cudaEventElapsedTime(&milliseconds, from, to));
        if (i >= 2) times.push_back(milliseconds);
    }
    CHECK(cudaGraphExecDestroy(recorded));
    CHECK(cudaGraphDestroy(graph));
    std::sort(times.begin(), times.end());
    return times[times.size() / 2] / 1e3;
}

// Starts `nothing`; with `early`, its blocks may start before the previous kernel has ended.
static void start_nothing(bool early) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(kThreads);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = early ? 1 : 0;
    CHECK(cudaLaunchKernelEx(&config, nothing));
}

int main() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("SKIPPED: the speed of a GPU, because there is none\n");
        return 0;
    }
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    CHECK(cudaStreamCreate(&stream));
    const u32 sms = device.multiProcessorCount;
    size_t free, total;
    CHECK(cudaMemGetInfo(&free, &total));
    // Large enough that no cache holds it.
    const size_t bytes = std::min<size_t>(free / 4, 4ull << 30) / 16 * 16;
    u32 *memory, *result;
    CHECK(cudaMalloc(&memory, bytes));
    CHECK(cudaMalloc(&result, 16));
    fill<<<4 * sms, kThreads, 0, stream>>>(memory, bytes / 4);
    CHECK(cudaGetLastError());
    printf("%s, %u SMs, %.0f GB\n", device.name, sms, total / 1e9);

    double best = 0;
    for (u32 blocks = 1; blocks <= 8; blocks *= 2) {
        best = std::max(best, bytes / seconds([&] { read<<<blocks * sms, kThreads, 0, stream>>>((uint4*)memory, bytes / 16, result); }));
    }
    printf("read    %8.0f GB/s\n", best / 1e9);
    const size_t half = bytes / 2;
    const double copied = seconds([&] { CHECK(cudaMemcpyAsync((char*)memory + half, memory, half, cudaMemcpyDeviceToDevice, stream)); });
    printf("copy    %8.0f GB/s, bytes read and bytes written\n", 2 * half / copied / 1e9);

    best = 0;
    for (u32 blocks = 1; blocks <= 4; blocks *= 2) {
        const double took = seconds([&] { multiply<<<blocks * sms, kThreads, 0, stream>>>((float*)result, result + 1); });
        u32 products;
        CHECK(cudaMemcpy(&products, result + 1, 4, cudaMemcpyDeviceToHost));
        best = std::max(best, 2.0 * products * kThreads * blocks * sms / took);
    }
    printf("multiply%8.0f TFLOP/s, binary16, sums in single precision\n", best / 1e12);

    constexpr int kLaunches = 1000;
    for (const bool early : {false, true}) {
        if (early && device.major < 9) break;
        const double took = seconds([&] { for (int i = 0; i < kLaunches; i++) start_nothing(early && i > 0); });
        printf("launch  %8.2f us%s\n", took / kLaunches * 1e6, early ? ", started early" : "");
    }
    return 0;
}

// CUDA kernels on a processor: enough of the language for a kernel to run, strictly, so that mistakes show.
//
// Every thread of a block is a fibre. They take turns: one runs until it waits for the others, then the next one runs.
// Blocks come one after the other, and find shared memory full of NaN. A block in which some threads wait for others
// that never come is reported. Threads run in order or in reverse: what depends on it is a race.

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

using std::exp, std::log, std::max, std::min, std::sqrt, std::tanh;

#define __global__
#define __device__
#define __shared__ static __attribute__((section("shared")))
#define __restrict__
#define __launch_bounds__(...)

extern char shared_begin[] __asm__("__start_shared") __attribute__((weak, visibility("hidden")));
extern char shared_end[] __asm__("__stop_shared") __attribute__((weak, visibility("hidden")));

struct Three { unsigned x, y, z; };
static Three threadIdx, blockIdx, blockDim, gridDim;

namespace cpu {

struct Barrier { int arrived = 0, passed = 0; };
struct Fibre {
    ucontext_t context;  // where it begins; from then on it is entered and left by jumps, which cost no system call
    jmp_buf here;
    std::vector<char> stack = std::vector<char>(1 << 16);
    Barrier* waits_at = nullptr;
    int until = 0;
    bool begun = false, done = false;
};

static ucontext_t nowhere;
static jmp_buf scheduler;
static std::vector<Fibre> fibres;
static std::vector<Barrier> warps;
static std::vector<double> exchanged;
static Barrier block;
static int running;
static std::function<void()> body;

__attribute__((noinline)) static void leave(Fibre& f) {
    if (!_setjmp(f.here)) _longjmp(scheduler, 1);
}

static void live() {  // a fibre is the thread of one block after the other
    for (;;) {
        body();
        fibres[running].done = true;
        leave(fibres[running]);
    }
}

__attribute__((noinline)) static void enter(Fibre& f) {
    if (_setjmp(scheduler)) return;
    if (f.begun) _longjmp(f.here, 1);
    f.begun = true;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.data();
    f.context.uc_stack.ss_size = f.stack.size();
    makecontext(&f.context, live, 0);
    swapcontext(&nowhere, &f.context);
}

static void wait(Barrier& barrier, int all) {
    Fibre& me = fibres[running];
    if (++barrier.arrived == all) {
        barrier.arrived = 0;
        barrier.passed++;
        return;
    }
    me.waits_at = &barrier;
    me.until = barrier.passed + 1;
    leave(me);
}

static int threads() { return blockDim.x * blockDim.y * blockDim.z; }
static int warp_size() { return std::min(32, threads() - running / 32 * 32); }

// Everything of one block; false where its threads wait for ever.
static bool run_block(bool reverse) {
    int n = threads(), left = n;
    if (shared_begin) memset(shared_begin, 0xff, shared_end - shared_begin);
    if ((int)fibres.size() < n) fibres = std::vector<Fibre>(n);
    warps.assign((n + 31) / 32, Barrier());
    exchanged.assign(n, 0);
    block = Barrier();
    for (int i = 0; i < n; i++) {
        Fibre& f = fibres[i];
        f.done = false;
        f.waits_at = nullptr;
    }
    while (left) {
        bool moved = false;
        for (int k = 0; k < n; k++) {
            running = reverse ? n - 1 - k : k;
            Fibre& f = fibres[running];
            if (f.done || (f.waits_at && f.waits_at->passed < f.until)) continue;
            f.waits_at = nullptr;
            threadIdx.x = running % blockDim.x;
            threadIdx.y = running / blockDim.x % blockDim.y;
            threadIdx.z = running / blockDim.x / blockDim.y;
            enter(f);
            left -= f.done;
            moved = true;
        }
        if (!moved) {
            fibres.clear();  // they stand in the middle of something
            return false;
        }
    }
    return true;
}

static int run(const unsigned* grid, const unsigned* block, int reverse, std::function<void()> kernel) {
    body = kernel;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
                if (!run_block(reverse)) return 1;
    return 0;
}

}  // namespace cpu

static void __syncthreads() { cpu::wait(cpu::block, cpu::threads()); }
static void __syncwarp() { cpu::wait(cpu::warps[cpu::running / 32], cpu::warp_size()); }

static unsigned __float_as_uint(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
static float __uint_as_float(unsigned u) { float x; memcpy(&x, &u, 4); return x; }

template <class Number> static Number __shfl_xor_sync(unsigned, Number value, int apart) {
    cpu::exchanged[cpu::running] = value;
    __syncwarp();
    Number other = cpu::exchanged[cpu::running ^ apart];
    __syncwarp();
    return other;
}

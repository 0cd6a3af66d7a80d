// CUDA kernels on a processor: the player, which lets a kernel run strictly, so that mistakes show.
//
// Every thread of a block is a fibre. They take turns: one runs until it waits for the others, then the next one runs.
// A warp runs until all its threads wait for the block, then the next warp runs: one is as far ahead as it can be.
// Blocks come one after the other, and find shared memory full of NaN. A block in which some threads wait for others
// that never come is reported. Threads run in order or in reverse: what depends on it is a race.
//
// The instructions of mma.cuh, which only a GPU has, are at the end, after NVIDIA's manual (PTX ISA).

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <vector>

#include "cuda_on_cpu.h"

Three threadIdx, blockIdx, blockDim, gridDim;

namespace cpu {

struct Barrier { int arrived = 0, passed = 0; };
struct Copy { void* to; const void* from; int bytes; };  // from nowhere: zeros
struct Fibre {
    ucontext_t context;  // where it begins; from then on it is entered and left by jumps, which cost no system call
    jmp_buf here;
    std::vector<char> stack = std::vector<char>(1 << 16);
    Barrier* waits_at = nullptr;
    int until = 0, exchanges = 0;
    bool begun = false, done = false;
    std::vector<Copy> under_way;
};
// What the lanes of a warp bring together for one instruction.
struct Together { float a[16][16], b[16][8]; const unsigned short* row[32]; };

static ucontext_t nowhere;
static jmp_buf scheduler;
static std::vector<Fibre> fibres;
static std::vector<Barrier> warps;
static std::vector<double> exchanged[2];  // by every other exchange
static std::vector<Together> together;
static bool at_once;  // do copies arrive when they are started, or when a thread waits for them?
static bool bad_factor;
bool bad_address;
static Barrier block;
static int running;
static void (*kernel)(void**);
static void** arguments;
static char *shared_first, *shared_last;  // of the source that this kernel is in

__attribute__((noinline)) static void leave(Fibre& f) {
    if (!_setjmp(f.here)) _longjmp(scheduler, 1);
}

static void live() {  // a fibre is the thread of one block after the other
    for (;;) {
        kernel(arguments);
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

// Each thread of a warp, until it waits or is done. Was there one that need not wait?
static bool run_warp(int warp, bool reverse, int& left) {
    bool moved = false;
    int first = 32 * warp, size = std::min(32, threads() - first);
    for (int k = 0; k < size; k++) {
        running = first + (reverse ? size - 1 - k : k);
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
    return moved;
}

// Everything of one block; false where its threads wait for ever.
static bool run_block(bool reverse) {
    int n = threads(), left = n;
    if (shared_first) memset(shared_first, 0xff, shared_last - shared_first);
    if ((int)fibres.size() < n) fibres = std::vector<Fibre>(n);
    warps.assign((n + 31) / 32, Barrier());
    for (std::vector<double>& values : exchanged) values.assign(n, 0);
    together.resize((n + 31) / 32);
    block = Barrier();
    for (int i = 0; i < n; i++) {
        Fibre& f = fibres[i];
        f.done = false;
        f.waits_at = nullptr;
        f.exchanges = 0;
        f.under_way.clear();
    }
    while (left) {
        bool moved = false;
        for (int i = 0; i < (int)warps.size(); i++) {
            int warp = reverse ? warps.size() - 1 - i : i;
            while (run_warp(warp, reverse, left)) moved = true;
        }
        if (!moved) {
            fibres.clear();  // they stand in the middle of something
            return false;
        }
    }
    return true;
}

int run(const unsigned* grid, const unsigned* block, int reverse, void (*of_source)(void**), void** given, char* begin,
        char* end) {
    kernel = of_source;
    arguments = given;
    shared_first = begin;
    shared_last = end;
    at_once = reverse;
    bad_address = bad_factor = false;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
                if (!run_block(reverse)) return 1;
    return bad_address ? 2 : bad_factor ? 3 : 0;
}

}  // namespace cpu

void __syncthreads() { cpu::wait(cpu::block, cpu::threads()); }
void __syncwarp() { cpu::wait(cpu::warps[cpu::running / 32], cpu::warp_size()); }

double cpu::exchange(double value, int apart) {
    std::vector<double>& values = exchanged[fibres[running].exchanges++ % 2];
    values[running] = value;
    __syncwarp();
    return values[running ^ apart];  // and not overwritten before all of the warp have come to the next exchange
}

// --- the instructions of mma.cuh ---

namespace cpu {

// Is this a place in shared memory that so many bytes can be moved to or from at once?
static bool in_shared(const void* p, int bytes) {
    bool good = p >= shared_first && (const char*)p + bytes <= shared_last && (size_t)p % bytes == 0;
    bad_address |= !good;
    return good;
}

static void arrive(const Copy& copy) {
    if (copy.from) memcpy(copy.to, copy.from, copy.bytes);
    else memset(copy.to, 0, copy.bytes);
}

static void copy_async(void* to, const void* from, bool there, int bytes) {
    bad_address |= (size_t)from % bytes != 0;
    if (!in_shared(to, bytes)) return;
    Copy copy = {to, there ? from : nullptr, bytes};
    if (at_once) arrive(copy);
    else fibres[running].under_way.push_back(copy);
}

// A whole warp must be there: where lanes are missing the others wait for ever.
static Together& mine() { return together[running / 32]; }
static void meet() { wait(warps[running / 32], 32); }

static unsigned word(unsigned short first, unsigned short second) { return first | (unsigned)second << 16; }
static float number(const unsigned* words, int i) {
    unsigned u = words[i / 2] >> i % 2 * 16 << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}

static float tf32(unsigned bits) {
    bad_factor |= (bits & 0x1FFFu) != 0;
    return __uint_as_float(bits);
}

static void ldmatrix(unsigned* words, const void* row, bool transposed) {
    int lane = running % 32;
    static const unsigned short nothing[8] = {0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff};
    mine().row[lane] = in_shared(row, 16) ? (const unsigned short*)row : nothing;
    meet();
    for (int i = 0; i < 4; i++) {
        const unsigned short** rows = mine().row + 8 * i;
        int one = lane / 4, two = lane % 4 * 2;
        words[i] = transposed ? word(rows[two][one], rows[two + 1][one]) : word(rows[one][two], rows[one][two + 1]);
    }
    meet();
}

}  // namespace cpu

// "Warp-level matrix load instruction: ldmatrix": the threads 8i to 8i + 7 have the addresses of the rows of matrix i;
// each row goes to a group of four threads, two numbers to each.
void ldmatrix_x4(unsigned* words, const void* row) { cpu::ldmatrix(words, row, false); }
void ldmatrix_x4_trans(unsigned* words, const void* row) { cpu::ldmatrix(words, row, true); }

// "Matrix Fragments for mma.m16n8k16 with floating point type". Sums in float, as on a GPU; their sequence
// there is not documented.
void mma_m16n8k16(float* c, const unsigned* a, const unsigned* b) {
    int group = cpu::running % 32 / 4, thread_in_group = cpu::running % 4;
    cpu::Together& all = cpu::mine();
    for (int i = 0; i < 8; i++) {
        int row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
        int column = thread_in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
        all.a[row][column] = cpu::number(a, i);
    }
    for (int i = 0; i < 4; i++) all.b[thread_in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0)][group] = cpu::number(b, i);
    cpu::meet();
    for (int i = 0; i < 4; i++) {
        int row = i < 2 ? group : group + 8, column = thread_in_group * 2 + (i & 1);
        for (int k = 0; k < 16; k++) c[i] += all.a[row][k] * all.b[k][column];
    }
    cpu::meet();
}

// "cvt.rna.tf32.f32": to the nearest of the floats whose last 13 bits are 0, a tie away from 0. So half of what bit 13
// counts is added to the size, and the rest is cut off. Larger than all others, an infinity and NaN stay what they are.
unsigned cvt_rna_tf32(float x) {
    unsigned bits = __float_as_uint(x);
    if (std::isnan(x)) return 0x7FFFE000u;
    return std::isinf(x) ? bits : (bits + 0x1000u) & ~0x1FFFu;
}

// "Matrix Fragments for mma.m16n8k8", .tf32. A GPU does not look at the last 13 bits of a factor: it must be rounded.
void mma_m16n8k8(float* c, const unsigned* a, const unsigned* b) {
    int group = cpu::running % 32 / 4, thread_in_group = cpu::running % 4;
    cpu::Together& all = cpu::mine();
    for (int i = 0; i < 4; i++) {
        int row = i == 0 || i == 2 ? group : group + 8;
        int column = i == 0 || i == 1 ? thread_in_group : thread_in_group + 4;
        all.a[row][column] = cpu::tf32(a[i]);
    }
    for (int i = 0; i < 2; i++) all.b[i == 0 ? thread_in_group : thread_in_group + 4][group] = cpu::tf32(b[i]);
    cpu::meet();
    for (int i = 0; i < 4; i++) {
        int row = i < 2 ? group : group + 8, column = thread_in_group * 2 + (i & 1);
        for (int k = 0; k < 8; k++) c[i] += all.a[row][k] * all.b[k][column];
    }
    cpu::meet();
}

// "cvt.rn.bf16x2.f32": to the nearest, and of two that are equally near to the even one; the first is the lower half.
unsigned cvt_bf16x2(float second, float first) {
    auto round = [](float x) {
        unsigned all = __float_as_uint(x);
        return x != x ? 0x7FFFu : (all + 0x7FFF + (all >> 16 & 1)) >> 16;
    };
    return cpu::word(round(first), round(second));
}

void cp_async_16(void* to, const void* from, bool there) { cpu::copy_async(to, from, there, 16); }
void cp_async_4(void* to, const void* from, bool there) { cpu::copy_async(to, from, there, 4); }
void cp_async_wait_all() {
    for (const cpu::Copy& copy : cpu::fibres[cpu::running].under_way) cpu::arrive(copy);
    cpu::fibres[cpu::running].under_way.clear();
}

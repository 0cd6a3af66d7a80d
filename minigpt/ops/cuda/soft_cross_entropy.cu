// Cross-entropy with soft targets: logits (N,V), target_logits (N,V) -> losses (N). A block of WARPS warps takes a row;
// WARPS is chosen when this is compiled. Of each row, with the temperature T:
//
// u = logits / T,   p = softmax(u),   t = target_logits / T,   q = softmax(t).

#include "common.cuh"
#include "exp_sum.cuh"

// What is summed over a row: exp(u), exp(t), and gap = sum_v exp(t[v] - teacher.largest) (student.largest - u[v]).
//
// No term of gap is negative, so nothing cancels:   - sum_v q[v] log p[v] = log(student.total) + gap / teacher.total.
struct SoftSums {
    ExpSum student, teacher;
    wide gap;

    // The same sums, with larger numbers as the largest: the old ones if these are not larger.
    __device__ void raise(wide student_largest, wide teacher_largest) {
        if (student.largest < student_largest) {
            if (teacher.total > 0) gap += (student_largest - student.largest) * teacher.total;
            student.total *= exponential(student.largest - student_largest);
            student.largest = student_largest;
        }
        if (teacher.largest < teacher_largest) {
            wide shrink = exponential(teacher.largest - teacher_largest);
            teacher.total *= shrink;
            gap *= shrink;
            teacher.largest = teacher_largest;
        }
    }

    // One word more.
    __device__ void add(wide u, wide t) {
        raise(u, t);
        wide e = exponential(t - teacher.largest);
        student.total += exponential(u - student.largest);
        teacher.total += e;
        gap += e * (student.largest - u);
    }
};

// The sums of a warp's lanes become one, which every lane gets.
__device__ inline SoftSums of_warp(SoftSums sums) {
    sums.raise(warp_largest(sums.student.largest), warp_largest(sums.teacher.largest));
    sums.student.total = warp_sum(sums.student.total);
    sums.teacher.total = warp_sum(sums.teacher.total);
    sums.gap = warp_sum(sums.gap);
    return sums;
}

// losses = - sum_v q[v] log p[v]. student, teacher (N,2): the sums of exp(u) and of exp(t), largest and total.
//
// Both rows are read once.
extern "C" __launch_bounds__(WARPS * WARP) __global__ void soft_cross_entropy_forward(
    wide* losses, wide* student, wide* teacher, const real* logits, const real* target_logits, wide temperature,
    int columns
) {
    __shared__ SoftSums of_warps[WARPS];
    const SoftSums NOTHING = {{LOWEST, 0}, {LOWEST, 0}, 0};
    long long n = blockIdx.x;
    SoftSums sums = NOTHING;
#pragma unroll 2
    for (int v = threadIdx.x * PACK; v < columns; v += WARPS * WARP * PACK) {
        Packed<real> u = pack(logits + n * columns + v), t = pack(target_logits + n * columns + v);
        for (int j = 0; j < PACK; j++) sums.add(wide(u.x[j]) / temperature, wide(t.x[j]) / temperature);
    }
    sums = of_warp(sums);
    int lane = threadIdx.x % WARP;
    if (lane == 0) of_warps[threadIdx.x / WARP] = sums;
    __syncthreads();
    sums = of_warp(lane < WARPS ? of_warps[lane] : NOTHING);

    if (threadIdx.x == 0) {
        losses[n] = log(sums.student.total) + sums.gap / sums.teacher.total;
        student[2 * n] = sums.student.largest;
        student[2 * n + 1] = sums.student.total;
        teacher[2 * n] = sums.teacher.largest;
        teacher[2 * n + 1] = sums.teacher.total;
    }
}

// loss = T^2 sum_n share[n] losses[n], so with slope = dloss T
// dlogits = slope share (p - q),   dtarget_logits = slope share q (- log p - losses): the mean of - log p under q is losses.
extern "C" __launch_bounds__(WARPS * WARP) __global__ void soft_cross_entropy_backward(
    real* dlogits, real* dtarget_logits, const real* logits, const real* target_logits, const wide* losses,
    const wide* student, const wide* teacher, const wide* share, wide temperature, wide slope, int columns
) {
    long long n = blockIdx.x;
    wide student_largest = student[2 * n], p_scale = 1 / student[2 * n + 1], log_total = log(student[2 * n + 1]);
    wide teacher_largest = teacher[2 * n], q_scale = 1 / teacher[2 * n + 1], loss = losses[n];
    wide dlosses = slope * share[n];
#pragma unroll 2
    for (int v = threadIdx.x * PACK; v < columns; v += WARPS * WARP * PACK) {
        Packed<real> u = pack(logits + n * columns + v), t = pack(target_logits + n * columns + v);
        for (int j = 0; j < PACK; j++) {
            wide below = wide(u.x[j]) / temperature - student_largest;
            wide p = exponential(below) * p_scale;
            wide q = exponential(wide(t.x[j]) / temperature - teacher_largest) * q_scale;
            u.x[j] = dlosses * (p - q);
            t.x[j] = dlosses * q * (log_total - below - loss);
        }
        pack(dlogits + n * columns + v) = u;
        pack(dtarget_logits + n * columns + v) = t;
    }
}

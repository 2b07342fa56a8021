// test_cuda_emulation.cpp - the emulation itself: that it computes what a device would, and that it names what a
// device would let pass or die of.
#include "emulate.h"

#include <stdio.h>

namespace
{

struct Case {
    const char *name;
    bool (*test)();
};

// Whether the launch ended with a sentence that has all of `parts` in it.
bool says(const char *sentence, std::initializer_list<const char *> parts)
{
    for (const char *part : parts)
        if (!sentence || !strstr(sentence, part)) {
            printf("  expected \"%s\" in: %s\n", part, sentence ? sentence : "(no trouble)");
            return false;
        }
    return true;
}

bool indices_and_memory()
{
    unsigned *out = static_cast<unsigned *>(emu_alloc(6 * sizeof *out));
    const char *trouble = emu_launch("count", 3, 2, 0, [=] {
        out[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x * 10 + threadIdx.x + gridDim.x * 100;
    });
    bool right = !trouble;
    for (unsigned i = 0; i < 6; i++) right = right && out[i] == 300 + i / 2 * 10 + i % 2;
    emu_free(out);
    return right;
}

// A sum through shared memory is right only if the barriers hold.
bool barriers()
{
    int *out = static_cast<int *>(emu_alloc(sizeof *out));
    const char *trouble = emu_launch("sum", 1, 128, 128 * sizeof(int), [=] {
        GPU_SHARED(int, values);
        values[threadIdx.x] = (int)threadIdx.x;
        __syncthreads();
        for (unsigned apart = 64; apart; apart /= 2) {
            if (threadIdx.x < apart) values[threadIdx.x] += values[threadIdx.x + apart];
            __syncthreads();
        }
        if (threadIdx.x == 0) *out = values[0];
    });
    const bool right = !trouble && *out == 128 * 127 / 2;
    emu_free(out);
    return right;
}

bool shuffles()
{
    int *out = static_cast<int *>(emu_alloc(64 * sizeof *out));
    const char *trouble = emu_launch("shuffle", 1, 64, 0, [=] {
        int sum = (int)threadIdx.x;
        for (unsigned apart = 16; apart; apart /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, apart);
        const int third = __shfl_sync(0xffffffffu, (int)threadIdx.x * 2, 3);
        out[threadIdx.x] = sum * 1000 + third;
    });
    bool right = !trouble;
    for (int i = 0; i < 64; i++) right = right && out[i] == (i < 32 ? 496006 : 1520070);
    emu_free(out);
    return right;
}

bool barrier_divergence()
{
    const char *two = emu_launch("two_barriers", 2, 64, 0, [] {
        if (threadIdx.x < 40)
            __syncthreads();
        else
            __syncthreads();
    });
    if (!says(two, {"kernel two_barriers, block 0", "divergence", "thread 0", "thread 40",
                    "test_cuda_emulation.cpp"}))
        return false;
    const char *none = emu_launch("one_leaves", 1, 64, 0, [] {
        if (threadIdx.x == 33) return;
        __syncthreads();
    });
    return says(none, {"kernel one_leaves", "divergence", "thread 33 is at its end"});
}

bool shuffle_divergence()
{
    const char *some = emu_launch("half_a_warp", 1, 32, 0, [] {
        if (threadIdx.x < 16) (void)__shfl_xor_sync(0xffffffffu, 1, 1);
    });
    if (!says(some, {"kernel half_a_warp", "divergence", "shuffle"})) return false;
    const char *mixed = emu_launch("shuffle_and_barrier", 1, 32, 0, [] {
        if (threadIdx.x < 16)
            (void)__shfl_xor_sync(0xffffffffu, 1, 1);
        else
            __syncthreads();
    });
    return says(mixed, {"kernel shuffle_and_barrier", "divergence", "barrier"});
}

bool past_the_end()
{
    volatile float *memory = static_cast<volatile float *>(emu_alloc(256 * sizeof(float)));
    const char *past = emu_launch("writes_past", 2, 32, 0, [=] {
        if (blockIdx.x == 1 && threadIdx.x == 7) memory[256] = 1.0f;
    });
    bool right = says(
        past, {"kernel writes_past, block 1, thread 7", "past an allocation of 1024 bytes, 0 off"});
    const char *before = emu_launch("reads_before", 1, 1, 0, [=] { memory[0] = memory[-1024]; });
    right =
        right && says(before, {"kernel reads_before, block 0, thread 0", "before an allocation"});
    emu_free(const_cast<float *>(memory));
    const char *gone = emu_launch("reads_freed", 1, 1, 0, [=] { memory[0] = 1.0f; });
    return right && says(gone, {"kernel reads_freed", "not the device's"});
}

bool it_goes_on_after_trouble()
{
    return past_the_end() && barriers() && barrier_divergence() && shuffles();
}

bool too_large_a_block()
{
    return says(emu_launch("huge", 1, 2048, 0, [] {}),
                {"kernel huge", "2048 threads", "at most 1024"}) &&
           says(emu_launch("greedy", 1, 32, 1 << 20, [] {}),
                {"kernel greedy", "1048576 bytes of shared"});
}

} // namespace

int main()
{
    const Case cases[] = {
        {"indices and memory", indices_and_memory},
        {"barriers", barriers},
        {"shuffles", shuffles},
        {"barriers that not all come to are named", barrier_divergence},
        {"shuffles that not all come to are named", shuffle_divergence},
        {"memory touched outside an allocation is named", past_the_end},
        {"it goes on after trouble", it_goes_on_after_trouble},
        {"a block that is too large is refused", too_large_a_block},
    };
    int failed = 0, passed = 0;
    for (const Case &c : cases) {
        const bool well = c.test();
        printf("%s: %s\n", well ? "passed" : "FAILED", c.name);
        *(well ? &passed : &failed) += 1;
    }
    printf("COUNTED %d passed, %d failed, 0 skipped\n", passed, failed);
    return failed ? 1 : 0;
}

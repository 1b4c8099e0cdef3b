/* An older processor for everybody in a process: CPUID without AVX-512, AMX and VNNI.

   Libraries choose their code by CPUID, and not all of them let a variable limit that. Linux lets a process have faults
   instead of the instruction's answers (arch_prctl(2), ARCH_CPUID_SET) where the processor can (cpuid_fault in
   /proc/cpuinfo). What is answered here is what the processor says, without these instruction sets.

       cc -O2 -shared -fPIC -o older_processor.so benchmarks/older_processor.c
       LD_PRELOAD=$PWD/older_processor.so OPENDML_CPU_FEATURES=avx2 python -m benchmarks --save FILE

   With OLDER_PROCESSOR_VNNI=1 and OPENDML_CPU_FEATURES=avx2,avxvnni AVX-VNNI stays, as processors since Alder Lake have
   it. Where there are no such faults the process ends at once. A disk cache that other processes have as well is no
   harm: its keys have what CPUID answers, and LLVM's facts of the processor are not kept while there are such faults. */

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { CPUID_SET = 0x1012 };

/* Bits of a leaf's EAX, EBX, ECX and EDX that are cleared. */
static struct {
    uint32_t leaf, subleaf, cleared[4];
} answers[] = {
    /* AVX512F, DQ, IFMA, PF, ER, CD, BW, VL; VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ; 4VNNIW, 4FMAPS, VP2INTERSECT,
       AMX-BF16, AVX512-FP16, AMX-TILE, AMX-INT8 */
    {7, 0, {0, 0xdc230000, 0x5842, 0x03c0010c}},
    /* AVX-VNNI, AVX512-BF16, AMX-FP16; AVX10 */
    {7, 1, {0x00200030, 0, 0, 0x00080000}},
    /* the states of mask registers, upper halves, upper registers, and tiles */
    {13, 0, {0x000600e0, 0, 0, 0}},
};

static int answered_by_processor(int yes) { return syscall(SYS_arch_prctl, CPUID_SET, (unsigned long)yes); }

static void answer(uint32_t leaf, uint32_t subleaf, uint32_t registers[4]) {
    answered_by_processor(1);
    __asm__ volatile("cpuid"
                     : "=a"(registers[0]), "=b"(registers[1]), "=c"(registers[2]), "=d"(registers[3])
                     : "a"(leaf), "c"(subleaf));
    answered_by_processor(0);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (leaf == answers[i].leaf && subleaf == answers[i].subleaf)
            for (int j = 0; j < 4; j++) registers[j] &= ~answers[i].cleared[j];
}

static void on_fault(int signal_number, siginfo_t *info, void *context) {
    (void)info;
    greg_t *state = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *instruction = (const uint8_t *)state[REG_RIP];
    if (instruction[0] != 0x0f || instruction[1] != 0xa2) {
        signal(signal_number, SIG_DFL); /* somebody's own fault, which comes again */
        return;
    }
    uint32_t registers[4];
    answer((uint32_t)state[REG_RAX], (uint32_t)state[REG_RCX], registers);
    state[REG_RAX] = registers[0];
    state[REG_RBX] = registers[1];
    state[REG_RCX] = registers[2];
    state[REG_RDX] = registers[3];
    state[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
    const char *vnni = getenv("OLDER_PROCESSOR_VNNI");
    if (vnni && strcmp(vnni, "1") == 0) answers[1].cleared[0] &= ~0x10u;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    if (sigaction(SIGSEGV, &action, NULL) || answered_by_processor(0)) {
        fputs("older_processor: this system has no faults in place of CPUID's answers\n", stderr);
        _exit(2);
    }
}

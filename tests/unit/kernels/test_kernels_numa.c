/* test_kernels_numa.c - nodes of memory: what a made-up machine's files say, how threads are dealt out to nodes, that they are
 * bound there, and that spread memory is what it was. */
#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpu/numa.h"
#include "kernels.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

enum { MOST_NODES = 3, PATH_BYTES = 256 };

/* Two processors that this process may run on; the same one twice where it has no other. */
typedef struct own {
    unsigned a, b;
} own;

static own own_processors(void)
{
    cpu_set_t set;
    own o = {CPU_SETSIZE, CPU_SETSIZE};
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    for (unsigned i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) {
            if (o.a == CPU_SETSIZE)
                o.a = i;
            else if (o.b == CPU_SETSIZE)
                o.b = i;
        }
    if (o.b == CPU_SETSIZE) o.b = o.a;
    return o;
}

static void put_file(const char *folder, const char *name, const char *text)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* A machine: `online`, and of some nodes their processors, in which A and B stand for two of ours. */
typedef struct machine {
    const char *name, *online;
    struct {
        unsigned id;
        const char *cpus; /* NULL: no more */
    } nodes[MOST_NODES];
    uint32_t n;
    uint32_t ids[MOST_NODES];
} machine;

static const machine machines[] = {
    {"one node", "0\n", {{0, "A\n"}}, 1, {0}},
    {"two nodes", "0-1\n", {{0, "A\n"}, {1, "B\n"}}, 2, {0, 1}},
    {"numbers with a gap", "0,2\n", {{0, "A\n"}, {1, "A\n"}, {2, "B\n"}}, 2, {0, 2}},
    {"a node of memory alone", "0-2\n", {{0, "A\n"}, {1, "\n"}, {2, "B\n"}}, 2, {0, 2}},
    {"a node whose folder is missing", "0-2\n", {{0, "A\n"}, {2, "B\n"}}, 2, {0, 2}},
    {"lists of ranges", "0-1", {{0, "A-A,9000-9999\n"}, {1, "A,B\n"}}, 2, {0, 1}},
    {"no such list", "nodes\n", {{0, "A\n"}}, 0, {0}},
    {"half a range", "0-\n", {{0, "A\n"}}, 0, {0}},
    {"nothing", "", {{0, "A\n"}}, 0, {0}},
};

static void write_cpus(const char *folder, unsigned id, const char *cpus, own o)
{
    char name[64], text[64];
    size_t n = 0;
    for (const char *at = cpus; *at; at++)
        if (*at == 'A' || *at == 'B')
            n += (size_t)snprintf(text + n, sizeof text - n, "%u", *at == 'A' ? o.a : o.b);
        else
            text[n++] = *at;
    text[n] = '\0';
    snprintf(name, sizeof name, "%s/node%u", folder, id);
    assert_int_equal(mkdir(name, 0700), 0);
    put_file(name, "cpulist", text);
}

static void write_machine(const machine *m, char folder[PATH_BYTES])
{
    const own o = own_processors();
    snprintf(folder, PATH_BYTES, "%s", "/tmp/cadenza-numa-XXXXXX");
    assert_non_null(mkdtemp(folder));
    put_file(folder, "online", m->online);
    for (int i = 0; i < MOST_NODES && m->nodes[i].cpus; i++)
        write_cpus(folder, m->nodes[i].id, m->nodes[i].cpus, o);
}

static void remove_machine(const machine *m, const char *folder)
{
    char path[PATH_BYTES + 32];
    for (int i = 0; i < MOST_NODES && m->nodes[i].cpus; i++) {
        snprintf(path, sizeof path, "%s/node%u/cpulist", folder, m->nodes[i].id);
        unlink(path);
        snprintf(path, sizeof path, "%s/node%u", folder, m->nodes[i].id);
        rmdir(path);
    }
    snprintf(path, sizeof path, "%s/online", folder);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

static void test_files(void **state)
{
    (void)state;
    const own o = own_processors();
    for (size_t i = 0; i < COUNT(machines); i++) {
        const machine *m = &machines[i];
        char folder[PATH_BYTES];
        cdz_numa numa;
        write_machine(m, folder);
        cdz_numa_read(folder, &numa);
        if (numa.n != m->n) fail_msg("%s: %u nodes", m->name, (unsigned)numa.n);
        for (uint32_t n = 0; n < m->n; n++) {
            if (numa.id[n] != m->ids[n]) fail_msg("%s: node %u", m->name, (unsigned)numa.id[n]);
            if (!CPU_ISSET(o.a, &numa.cpus[n]) && !CPU_ISSET(o.b, &numa.cpus[n]))
                fail_msg("%s: node %u has neither processor", m->name, (unsigned)numa.id[n]);
        }
        assert_int_equal(cdz_cpu_nodes(folder), m->n > 1 ? m->n : 1);
        remove_machine(m, folder);
    }
    assert_int_equal(cdz_cpu_nodes("/nowhere/at/all"), 1);
}

static void test_dealt_out(void **state)
{
    (void)state;
    for (uint32_t nodes = 1; nodes <= 5; nodes++)
        for (uint32_t threads = 1; threads <= 33; threads++) {
            const cdz_numa numa = {.n = nodes};
            uint32_t had[5] = {0}, last = 0;
            for (uint32_t i = 0; i < threads; i++) {
                const uint32_t node = cdz_numa_node_of(&numa, i, threads);
                assert_true(node < nodes && node >= last);
                had[last = node]++;
            }
            for (uint32_t n = 0; n < nodes; n++)
                assert_true(had[n] == threads / nodes || had[n] == threads / nodes + 1);
        }
}

/* How many threads of this process may run on that processor alone. */
static unsigned bound_to(unsigned processor)
{
    DIR *threads = opendir("/proc/self/task");
    unsigned n = 0;
    assert_non_null(threads);
    for (const struct dirent *entry; (entry = readdir(threads));) {
        cpu_set_t set;
        const int id = (int)strtol(entry->d_name, NULL, 10);
        if (id > 0 && sched_getaffinity(id, sizeof set, &set) == 0)
            n += CPU_COUNT(&set) == 1 && CPU_ISSET(processor, &set);
    }
    closedir(threads);
    return n;
}

static void test_bound(void **state)
{
    (void)state;
    const own o = own_processors();
    cpu_set_t before;
    char folder[PATH_BYTES], why[256];
    if (o.a == o.b) skip();
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    const unsigned had[2] = {bound_to(o.a), bound_to(o.b)};
    cdz_backend *b = cdz_cpu_backend_create(&(cdz_cpu_options){.variant = "scalar", .n_threads = 4},
                                            why, sizeof why);
    assert_non_null(b);

    write_machine(&machines[0], folder);
    assert_int_equal(cdz_cpu_spread(b, folder), 1);
    assert_int_equal(bound_to(o.a), had[0]); /* one node: nothing is done */
    remove_machine(&machines[0], folder);

    write_machine(&machines[1], folder);
    assert_int_equal(cdz_cpu_spread(b, folder), 2);
    assert_int_equal(bound_to(o.a), had[0] + 2); /* this one and the first worker */
    assert_int_equal(bound_to(o.b), had[1] + 2);
    remove_machine(&machines[1], folder);

    cdz_kv *kv = b->api->kv_create(b, &(cdz_kv_shape){2, 2, 32, CDZ_F32, 0}, 64);
    assert_non_null(kv);
    b->api->kv_destroy(b, kv);
    b->api->destroy(b);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* Bytes of whole pages only, whether the system spreads them (sandboxes may not let it) or not. */
static void test_pages(void **state)
{
    (void)state;
    enum { PAGES = 4, INTERLEAVE = 3 };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const cdz_numa numa = {.n = 1, .id = {0}};
    char *memory =
        mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_true(cdz_numa_spread(&numa, memory + 8, page)); /* no whole page: nothing is asked */
    const bool spread = cdz_numa_spread(&numa, memory + 8, (PAGES - 1) * page);
    for (size_t i = 0; i < PAGES; i++) {
        int mode = -1;
        memory[i * page] = (char)i;
        if (!spread || syscall(SYS_get_mempolicy, &mode, NULL, 0, memory + i * page, 2) != 0)
            continue;
        assert_int_equal(mode == INTERLEAVE, i == 1 || i == 2);
    }
    for (size_t i = 0; i < PAGES; i++) assert_int_equal(memory[i * page], i);
    munmap(memory, PAGES * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_dealt_out),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_pages),
    };
    return cmocka_run_group_tests_name("kernels: numa", tests, NULL, NULL);
}

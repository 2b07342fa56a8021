/* elf.c - reads the ELF, program and dynamic headers of a file in memory; nothing of it runs. */
#include "native/elf.h"

#include <elf.h>
#include <link.h>
#include <string.h>

typedef struct object {
    const char *path, *bytes;
    size_t len;
    ElfW(Ehdr) header;
    cdz_error *err;
} object;

static bool inside(const object *o, uint64_t offset, uint64_t size)
{
    return offset <= o->len && size <= o->len - offset;
}

static unsigned own_machine(void)
{
#if defined(__x86_64__)
    return EM_X86_64;
#elif defined(__aarch64__)
    return EM_AARCH64;
#elif defined(__riscv)
    return EM_RISCV;
#else
    return EM_NONE; /* unknown to us: the dynamic loader decides */
#endif
}

static cdz_status check_header(object *o)
{
    if (o->len < SELFMAG || memcmp(o->bytes, ELFMAG, SELFMAG) != 0)
        return cdz_err(o->err, CDZ_E_PLUGIN,
                       "%s: not a shared object: it does not begin with an ELF header", o->path);
    if (o->len < sizeof o->header)
        return cdz_err(o->err, CDZ_E_PLUGIN, "%s: cut short: %zu bytes, less than an ELF header",
                       o->path, o->len);
    memcpy(&o->header, o->bytes, sizeof o->header);
    const unsigned char *ident = o->header.e_ident;
    if (ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
        return cdz_err(o->err, CDZ_E_PLUGIN, "%s: built for a %s-bit machine, this host is %zu-bit",
                       o->path, ident[EI_CLASS] == ELFCLASS64 ? "64" : "32", 8 * sizeof(void *));
    if (own_machine() != EM_NONE && o->header.e_machine != own_machine())
        return cdz_err(o->err, CDZ_E_PLUGIN,
                       "%s: built for another machine (ELF machine %u, this host is %u)", o->path,
                       o->header.e_machine, own_machine());
    if (o->header.e_type != ET_DYN)
        return cdz_err(o->err, CDZ_E_PLUGIN,
                       "%s: not a shared object (ELF type %u); link it with -shared", o->path,
                       o->header.e_type);
    if (o->header.e_phentsize != sizeof(ElfW(Phdr)) || o->header.e_phnum == 0 ||
        !inside(o, o->header.e_phoff, (uint64_t)o->header.e_phnum * sizeof(ElfW(Phdr))))
        return cdz_err(o->err, CDZ_E_PLUGIN,
                       "%s: cut short or damaged: its program headers lie "
                       "outside its %zu bytes",
                       o->path, o->len);
    return CDZ_OK;
}

static ElfW(Phdr) segment(const object *o, unsigned i)
{
    ElfW(Phdr) ph;
    memcpy(&ph, o->bytes + o->header.e_phoff + i * sizeof ph, sizeof ph);
    return ph;
}

static cdz_status check_segments(object *o, cdz_elf_layout *out)
{
    for (unsigned i = 0; i < o->header.e_phnum; i++) {
        const ElfW(Phdr) ph = segment(o, i);
        if (ph.p_type != PT_LOAD && ph.p_type != PT_DYNAMIC) continue;
        if (!inside(o, ph.p_offset, ph.p_filesz))
            return cdz_err(o->err, CDZ_E_PLUGIN,
                           "%s: cut short: a segment ends at byte %llu, the file has %zu", o->path,
                           (unsigned long long)ph.p_offset + ph.p_filesz, o->len);
        if (ph.p_type != PT_LOAD) continue;
        if (out->n == CDZ_ELF_SEGMENTS)
            return cdz_err(o->err, CDZ_E_PLUGIN, "%s: more than %d segments", o->path,
                           CDZ_ELF_SEGMENTS);
        out->start[out->n] = ph.p_vaddr;
        out->size[out->n++] = ph.p_memsz;
    }
    return CDZ_OK;
}

/* The string at a virtual address, when the file holds it whole; else NULL. */
static const char *string_at(const object *o, uint64_t address)
{
    for (unsigned i = 0; i < o->header.e_phnum; i++) {
        const ElfW(Phdr) ph = segment(o, i);
        if (ph.p_type != PT_LOAD || address < ph.p_vaddr || address - ph.p_vaddr >= ph.p_filesz)
            continue;
        const char *text = o->bytes + ph.p_offset + (address - ph.p_vaddr);
        size_t left = (size_t)(ph.p_filesz - (address - ph.p_vaddr));
        return memchr(text, '\0', left) ? text : NULL;
    }
    return NULL;
}

static cdz_status each_needed(object *o, const ElfW(Phdr) * dynamic, cdz_elf_visit visit, void *user)
{
    const size_t n = dynamic->p_filesz / sizeof(ElfW(Dyn));
    const char *at = o->bytes + dynamic->p_offset;
    uint64_t strings = 0;
    ElfW(Dyn) d;
    for (size_t i = 0; i < n; i++) {
        memcpy(&d, at + i * sizeof d, sizeof d);
        if (d.d_tag == DT_NULL) break;
        if (d.d_tag == DT_STRTAB) strings = d.d_un.d_ptr;
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(&d, at + i * sizeof d, sizeof d);
        if (d.d_tag == DT_NULL) break;
        if (d.d_tag != DT_NEEDED) continue;
        const char *name = string_at(o, strings + d.d_un.d_val);
        if (!name)
            return cdz_err(o->err, CDZ_E_PLUGIN,
                           "%s: damaged: a library it needs has no readable name", o->path);
        CDZ_TRY(visit(user, name, o->err));
    }
    return CDZ_OK;
}

static cdz_status refuse_relative(void *path, const char *name, cdz_error *err)
{
    if (!strchr(name, '/') || name[0] == '/') return CDZ_OK;
    return cdz_err(err, CDZ_E_DENIED,
                   "%s: needs the library '%s' by a relative path, which would depend on "
                   "the current directory; link it by name",
                   *(const char *const *)path, name);
}

static cdz_status each_dynamic(object *o, cdz_elf_visit visit, void *user)
{
    for (unsigned i = 0; i < o->header.e_phnum; i++) {
        const ElfW(Phdr) ph = segment(o, i);
        if (ph.p_type == PT_DYNAMIC) CDZ_TRY(each_needed(o, &ph, visit, user));
    }
    return CDZ_OK;
}

cdz_status cdz_elf_check(const char *path, const char *bytes, size_t len, cdz_elf_layout *out,
                         cdz_error *err)
{
    object o = {.path = path, .bytes = bytes, .len = len, .err = err};
    *out = (cdz_elf_layout){0};
    CDZ_TRY(check_header(&o));
    CDZ_TRY(check_segments(&o, out));
    return each_dynamic(&o, refuse_relative, &o.path);
}

cdz_status cdz_elf_each_needed(const char *path, const char *bytes, size_t len, cdz_elf_visit visit,
                               void *user, cdz_error *err)
{
    object o = {.path = path, .bytes = bytes, .len = len, .err = err};
    cdz_elf_layout layout = {0};
    CDZ_TRY(check_header(&o));
    CDZ_TRY(check_segments(&o, &layout));
    return each_dynamic(&o, visit, user);
}

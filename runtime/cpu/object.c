/* SPDX-License-Identifier: MIT
 * Loader of relocatable ELF64 objects: validate, lay the sections out in one mapping, relocate, protect.
 *
 * The mapping holds first the executable sections, then the read-only ones and the slots of the global offset table,
 * then the writable ones; each group starts on a page of its own. The whole is below 1 GiB, so a 32-bit relative
 * reference always reaches. Sources: System V ABI, "Object Files"; x86-64 psABI, section 4.4 "Relocation"; ELF for the
 * Arm 64-bit Architecture, section 5.7 "Relocation". */
#include "runtime/cpu/object.h"

#include "ir/support/alloc.h"
#include "ir/support/vec.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_SECTIONS = 60000, MAX_ALIGNMENT = 4096 };
static const uint64_t max_mapping_bytes = UINT64_C(1) << 30;

typedef enum group { GROUP_CODE, GROUP_CONST, GROUP_DATA, GROUP_COUNT, GROUP_NONE } group;

typedef struct section {
    Elf64_Shdr header;
    group group;
    uint64_t at; /* offset in the mapping, if the section is loaded */
} section;

typedef struct function {
    const char *name;
    uint64_t at;
} function;

struct tcc_host_object {
    tcc_arena memory; /* the names */
    tcc_vec(function) functions;
    unsigned char *mapping;
    uint64_t mapping_bytes;
};

typedef struct loader {
    tcc_diag *d;
    const char *name;
    const unsigned char *bytes;
    uint64_t size;
    tcc_host_object *object;
    section *sections;
    unsigned n_sections;
    const section *symbols, *strings; /* NULL: the object has none */
    uint64_t n_symbols;
    uint64_t group_at[GROUP_COUNT], group_bytes[GROUP_COUNT];
    uint64_t slots_at; /* next free slot of the global offset table, an offset in the mapping */
    uint64_t n_slots;
} loader;

#define FAIL(l, status, ...) fail((l), TCC_##status, __VA_ARGS__)
static tcc_status __attribute__((format(printf, 3, 4))) fail(loader *l, tcc_status status, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return tcc_error(l->d, status, TCC_NOWHERE, "object '%s': %s", l->name, message);
}

static bool inside(uint64_t offset, uint64_t size, uint64_t total) { return offset <= total && size <= total - offset; }

/* --- machines: one row each --- */

/* Apply one relocation at `place` (offset in the mapping) to the address of `symbol`. */
typedef tcc_status relocate_fn(loader *l, uint32_t type, uint64_t place, uint64_t symbol, int64_t addend,
                               const char *name);

typedef struct machine {
    unsigned id;
    const char *name;
    relocate_fn *relocate;             /* NULL: objects of this machine are known by name only */
    int (*width)(uint32_t type);       /* bytes that the relocation patches; 0: none, -1: unknown type */
    bool (*needs_slot)(uint32_t type); /* goes through the global offset table */
} machine;

static int width_x86_64(uint32_t type) {
    switch (type) {
    case R_X86_64_NONE: return 0;
    case R_X86_64_64:
    case R_X86_64_PC64: return 8;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
    case R_X86_64_32:
    case R_X86_64_32S:
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX: return 4;
    default: return -1;
    }
}

static bool needs_slot_x86_64(uint32_t type) {
    return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
}

static tcc_status relocate_x86_64(loader *l, uint32_t type, uint64_t place, uint64_t symbol, int64_t addend,
                                  const char *name) {
    unsigned char *at = l->object->mapping + place;
    uint64_t value = symbol + (uint64_t)addend;
    if (type != R_X86_64_64 && type != R_X86_64_32 && type != R_X86_64_32S) value -= (uint64_t)(uintptr_t)at;
    if (width_x86_64(type) == 8) {
        memcpy(at, &value, 8);
        return TCC_OK;
    }
    bool fits = type == R_X86_64_32 ? value <= UINT32_MAX : (int64_t)value == (int32_t)(uint32_t)value;
    if (!fits) return FAIL(l, EUNSUPPORTED, "relocation of type %u against '%s' does not fit into 32 bits", type, name);
    uint32_t low = (uint32_t)value;
    memcpy(at, &low, 4);
    return TCC_OK;
}

static int width_aarch64(uint32_t type) {
    switch (type) {
    case R_AARCH64_NONE: return 0;
    case R_AARCH64_ABS64:
    case R_AARCH64_PREL64: return 8;
    case R_AARCH64_PREL32:
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADR_GOT_PAGE:
    case R_AARCH64_LD64_GOT_LO12_NC:
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
    case R_AARCH64_LDST16_ABS_LO12_NC:
    case R_AARCH64_LDST32_ABS_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LDST128_ABS_LO12_NC: return 4;
    default: return -1;
    }
}

static bool needs_slot_aarch64(uint32_t type) {
    return type == R_AARCH64_ADR_GOT_PAGE || type == R_AARCH64_LD64_GOT_LO12_NC;
}

/* The scale of the 12 bits of an address within its page that an instruction has, as a power of two. */
static unsigned scale_aarch64(uint32_t type) {
    return type == R_AARCH64_LDST16_ABS_LO12_NC    ? 1
           : type == R_AARCH64_LDST32_ABS_LO12_NC  ? 2
           : type == R_AARCH64_LDST128_ABS_LO12_NC ? 4
           : type == R_AARCH64_LDST64_ABS_LO12_NC  ? 3
           : type == R_AARCH64_LD64_GOT_LO12_NC    ? 3
                                                   : 0;
}

static tcc_status relocate_aarch64(loader *l, uint32_t type, uint64_t place, uint64_t symbol, int64_t addend,
                                   const char *name) {
    unsigned char *at = l->object->mapping + place;
    const uint64_t value = symbol + (uint64_t)addend, here = (uint64_t)(uintptr_t)at;
    const int64_t distance = (int64_t)(value - here), pages = (int64_t)((value >> 12) - (here >> 12));
    uint32_t word;
    bool fits = true;
    if (width_aarch64(type) == 8) {
        const uint64_t whole = type == R_AARCH64_PREL64 ? (uint64_t)distance : value;
        memcpy(at, &whole, 8);
        return TCC_OK;
    }
    memcpy(&word, at, 4);
    if (type == R_AARCH64_PREL32) {
        fits = distance == (int32_t)distance;
        word = (uint32_t)distance;
    } else if (type == R_AARCH64_CALL26 || type == R_AARCH64_JUMP26) {
        fits = distance % 4 == 0 && distance >= -(INT64_C(1) << 27) && distance < INT64_C(1) << 27;
        word = (word & ~UINT32_C(0x3ffffff)) | ((uint32_t)(distance / 4) & 0x3ffffff);
    } else if (type == R_AARCH64_ADR_PREL_PG_HI21 || type == R_AARCH64_ADR_GOT_PAGE) {
        fits = pages >= -(1 << 20) && pages < 1 << 20;
        word = (word & ~UINT32_C(0x60ffffe0)) | ((uint32_t)pages & 3) << 29 | ((uint32_t)(pages >> 2) & 0x7ffff) << 5;
    } else {
        const unsigned scale = scale_aarch64(type);
        fits = value % (UINT64_C(1) << scale) == 0;
        word = (word & ~(UINT32_C(0xfff) << 10)) | (uint32_t)(value & 0xfff) >> scale << 10;
    }
    if (!fits) return FAIL(l, EUNSUPPORTED, "relocation of type %u against '%s' does not fit", type, name);
    memcpy(at, &word, 4);
    return TCC_OK;
}

static const machine machines[] = {
    {EM_X86_64, "x86-64", relocate_x86_64, width_x86_64, needs_slot_x86_64},
    {EM_AARCH64, "aarch64", relocate_aarch64, width_aarch64, needs_slot_aarch64},
    {EM_RISCV, "riscv", NULL, NULL, NULL},
};
#if defined __x86_64__
enum { THIS_MACHINE = EM_X86_64 };
#elif defined __aarch64__
enum { THIS_MACHINE = EM_AARCH64 };
#else
enum { THIS_MACHINE = EM_NONE };
#endif

static const machine *find_machine(unsigned id) {
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (machines[i].id == id) return &machines[i];
    return NULL;
}

/* --- reading and checking --- */

static tcc_status read_header(loader *l, Elf64_Ehdr *h, const machine **m) {
    if (l->size < sizeof *h)
        return FAIL(l, EFORMAT, "%llu bytes are too few for an ELF header", (unsigned long long)l->size);
    memcpy(h, l->bytes, sizeof *h);
    if (memcmp(h->e_ident, ELFMAG, SELFMAG)) return FAIL(l, EFORMAT, "not an ELF file");
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
        h->e_ident[EI_VERSION] != EV_CURRENT)
        return FAIL(l, EUNSUPPORTED, "not a 64-bit little-endian ELF file of version 1");
    if (h->e_type != ET_REL) return FAIL(l, EUNSUPPORTED, "ELF type %u is not a relocatable object", h->e_type);
    *m = find_machine(THIS_MACHINE);
    if (h->e_machine != THIS_MACHINE || !*m || !(*m)->relocate) {
        const machine *of = find_machine(h->e_machine);
        return FAIL(l, EUNSUPPORTED, "made for %s (ELF machine %u), but this process runs on %s",
                    of ? of->name : "another machine", h->e_machine, *m ? (*m)->name : "a machine without a loader");
    }
    if (h->e_shentsize != sizeof(Elf64_Shdr)) return FAIL(l, EFORMAT, "section headers of %u bytes", h->e_shentsize);
    if (!h->e_shnum || h->e_shnum > MAX_SECTIONS) return FAIL(l, EFORMAT, "%u sections", h->e_shnum);
    if (!inside(h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr), l->size))
        return FAIL(l, EFORMAT, "%u section headers at %llu pass the end of %llu bytes", h->e_shnum,
                    (unsigned long long)h->e_shoff, (unsigned long long)l->size);
    return TCC_OK;
}

static tcc_status check_section(loader *l, unsigned i) {
    section *s = &l->sections[i];
    const Elf64_Shdr *h = &s->header;
    s->group = GROUP_NONE;
    if (h->sh_type == SHT_NULL) return TCC_OK;
    if (h->sh_type != SHT_NOBITS && !inside(h->sh_offset, h->sh_size, l->size))
        return FAIL(l, EFORMAT, "section %u: %llu bytes at %llu pass the end of %llu bytes", i,
                    (unsigned long long)h->sh_size, (unsigned long long)h->sh_offset, (unsigned long long)l->size);
    if (h->sh_type == SHT_SYMTAB) {
        if (l->symbols) return FAIL(l, EFORMAT, "section %u is a second symbol table", i);
        if (h->sh_entsize != sizeof(Elf64_Sym) || h->sh_size % sizeof(Elf64_Sym))
            return FAIL(l, EFORMAT, "symbol table of %llu bytes with entries of %llu", (unsigned long long)h->sh_size,
                        (unsigned long long)h->sh_entsize);
        if (h->sh_link >= l->n_sections || l->sections[h->sh_link].header.sh_type != SHT_STRTAB)
            return FAIL(l, EFORMAT, "symbol table names section %u as its strings", h->sh_link);
        l->symbols = s;
        l->strings = &l->sections[h->sh_link];
        l->n_symbols = h->sh_size / sizeof(Elf64_Sym);
    }
    if (!(h->sh_flags & SHF_ALLOC)) return TCC_OK;

    if (h->sh_flags & SHF_TLS) return FAIL(l, EUNSUPPORTED, "section %u is thread-local", i);
    if (h->sh_type == SHT_INIT_ARRAY || h->sh_type == SHT_FINI_ARRAY || h->sh_type == SHT_PREINIT_ARRAY)
        return FAIL(l, EUNSUPPORTED, "section %u has constructors or destructors", i);
    if (h->sh_flags & SHF_EXECINSTR && h->sh_flags & SHF_WRITE)
        return FAIL(l, EUNSUPPORTED, "section %u is writable and executable", i);
    uint64_t alignment = h->sh_addralign ? h->sh_addralign : 1;
    if (alignment & (alignment - 1) || alignment > MAX_ALIGNMENT)
        return FAIL(l, EFORMAT, "section %u: alignment %llu", i, (unsigned long long)alignment);
    s->group = h->sh_flags & SHF_EXECINSTR ? GROUP_CODE : h->sh_flags & SHF_WRITE ? GROUP_DATA : GROUP_CONST;
    uint64_t at = (l->group_bytes[s->group] + alignment - 1) & ~(alignment - 1);
    if (h->sh_size > max_mapping_bytes || at + h->sh_size > max_mapping_bytes)
        return FAIL(l, EFORMAT, "section %u: %llu bytes are too many", i, (unsigned long long)h->sh_size);
    s->at = at; /* in its group, for now */
    l->group_bytes[s->group] = at + h->sh_size;
    return TCC_OK;
}

static tcc_status read_sections(loader *l, const Elf64_Ehdr *h) {
    l->n_sections = h->e_shnum;
    l->sections = tcc__calloc(l->n_sections, sizeof *l->sections);
    if (!l->sections) return tcc_enomem(l->d);
    for (unsigned i = 0; i < l->n_sections; i++)
        memcpy(&l->sections[i].header, l->bytes + h->e_shoff + i * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
    for (unsigned i = 0; i < l->n_sections; i++) TCC_TRY(check_section(l, i));
    if (l->strings) {
        const Elf64_Shdr *strings = &l->strings->header;
        if (!strings->sh_size || l->bytes[strings->sh_offset + strings->sh_size - 1])
            return FAIL(l, EFORMAT, "symbol names do not end with NUL");
    }
    return TCC_OK;
}

static tcc_status read_symbol(loader *l, uint64_t index, Elf64_Sym *symbol, const char **name) {
    if (index >= l->n_symbols)
        return FAIL(l, EFORMAT, "symbol %llu of %llu", (unsigned long long)index, (unsigned long long)l->n_symbols);
    memcpy(symbol, l->bytes + l->symbols->header.sh_offset + index * sizeof *symbol, sizeof *symbol);
    if (symbol->st_name >= l->strings->header.sh_size)
        return FAIL(l, EFORMAT, "symbol %llu: name at %u", (unsigned long long)index, symbol->st_name);
    *name = (const char *)l->bytes + l->strings->header.sh_offset + symbol->st_name;
    return TCC_OK;
}

/* Where the symbol lies in the mapping. */
static tcc_status locate(loader *l, const Elf64_Sym *symbol, const char *name, uint64_t *at) {
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if (symbol->st_shndx == SHN_UNDEF) return FAIL(l, ENOTFOUND, "undefined symbol '%s'", name);
    if (type == STT_TLS || type == STT_GNU_IFUNC || symbol->st_shndx >= SHN_LORESERVE)
        return FAIL(l, EUNSUPPORTED, "symbol '%s' of type %u in section %u", name, type, symbol->st_shndx);
    if (symbol->st_shndx >= l->n_sections) return FAIL(l, EFORMAT, "symbol '%s' in section %u", name, symbol->st_shndx);
    const section *s = &l->sections[symbol->st_shndx];
    if (s->group == GROUP_NONE)
        return FAIL(l, EFORMAT, "symbol '%s' lies in section %u, which is not loaded", name, symbol->st_shndx);
    if (symbol->st_value > s->header.sh_size) return FAIL(l, EFORMAT, "symbol '%s' lies outside its section", name);
    *at = s->at + symbol->st_value;
    return TCC_OK;
}

/* Call `each` for every relocation of a loaded section, checked but for its symbol. */
typedef tcc_status relocation_fn(loader *l, const machine *m, const section *target, const Elf64_Rela *r);

static tcc_status for_relocations(loader *l, const machine *m, relocation_fn *each) {
    for (unsigned i = 0; i < l->n_sections; i++) {
        const Elf64_Shdr *h = &l->sections[i].header;
        if (h->sh_type != SHT_RELA && h->sh_type != SHT_REL) continue;
        if (h->sh_info >= l->n_sections) return FAIL(l, EFORMAT, "section %u relocates section %u", i, h->sh_info);
        const section *target = &l->sections[h->sh_info];
        if (target->group == GROUP_NONE) continue; /* debug information */
        if (h->sh_type == SHT_REL || target->header.sh_type == SHT_NOBITS)
            return FAIL(l, EUNSUPPORTED, "section %u: relocations without addends, or of a section without contents",
                        i);
        if (h->sh_entsize != sizeof(Elf64_Rela) || h->sh_size % sizeof(Elf64_Rela) || !l->symbols ||
            &l->sections[h->sh_link < l->n_sections ? h->sh_link : 0] != l->symbols)
            return FAIL(l, EFORMAT, "section %u: malformed relocation table", i);
        for (uint64_t k = 0; k < h->sh_size / sizeof(Elf64_Rela); k++) {
            Elf64_Rela r;
            memcpy(&r, l->bytes + h->sh_offset + k * sizeof r, sizeof r);
            uint32_t type = (uint32_t)ELF64_R_TYPE(r.r_info);
            int width = m->width(type);
            if (width < 0) return FAIL(l, EUNSUPPORTED, "relocation of type %u", type);
            if (!inside(r.r_offset, (uint64_t)width, target->header.sh_size))
                return FAIL(l, EFORMAT, "relocation %llu of section %u lies outside it", (unsigned long long)k,
                            h->sh_info);
            if (width) TCC_TRY(each(l, m, target, &r));
        }
    }
    return TCC_OK;
}

static tcc_status count_slot(loader *l, const machine *m, const section *target, const Elf64_Rela *r) {
    (void)target;
    l->n_slots += m->needs_slot((uint32_t)ELF64_R_TYPE(r->r_info));
    return TCC_OK;
}

static tcc_status apply(loader *l, const machine *m, const section *target, const Elf64_Rela *r) {
    uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info);
    Elf64_Sym symbol;
    const char *name = "";
    uint64_t at = 0;
    TCC_TRY(read_symbol(l, ELF64_R_SYM(r->r_info), &symbol, &name));
    TCC_TRY(locate(l, &symbol, name, &at));
    uint64_t address = (uint64_t)(uintptr_t)l->object->mapping + at;
    if (m->needs_slot(type)) {
        memcpy(l->object->mapping + l->slots_at, &address, 8);
        address = (uint64_t)(uintptr_t)l->object->mapping + l->slots_at;
        l->slots_at += 8;
    }
    return m->relocate(l, type, target->at + r->r_offset, address, r->r_addend, name);
}

static tcc_status map_sections(loader *l) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    l->slots_at = (l->group_bytes[GROUP_CONST] + 7) & ~UINT64_C(7);
    if (l->n_slots) l->group_bytes[GROUP_CONST] = l->slots_at + 8 * l->n_slots;
    uint64_t total = 0;
    for (int g = 0; g < GROUP_COUNT; g++) {
        l->group_at[g] = total;
        l->group_bytes[g] = (l->group_bytes[g] + page - 1) & ~(page - 1);
        total += l->group_bytes[g];
    }
    l->slots_at += l->group_at[GROUP_CONST];
    if (!total) return FAIL(l, EFORMAT, "nothing to load");
    if (total > max_mapping_bytes)
        return FAIL(l, EFORMAT, "%llu bytes to load are too many", (unsigned long long)total);

    void *mapping = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return FAIL(l, ENOMEM, "cannot map %llu bytes", (unsigned long long)total);
    l->object->mapping = mapping;
    l->object->mapping_bytes = total;
    for (unsigned i = 0; i < l->n_sections; i++) {
        section *s = &l->sections[i];
        if (s->group == GROUP_NONE) continue;
        s->at += l->group_at[s->group];
        if (s->header.sh_type != SHT_NOBITS && s->header.sh_size)
            memcpy(l->object->mapping + s->at, l->bytes + s->header.sh_offset, s->header.sh_size);
    }
    return TCC_OK;
}

static tcc_status protect(loader *l) {
    static const int protection[GROUP_COUNT] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
    unsigned char *base = l->object->mapping;
    for (int g = 0; g < GROUP_COUNT; g++)
        if (l->group_bytes[g] && mprotect(base + l->group_at[g], l->group_bytes[g], protection[g]))
            return FAIL(l, EDEVICE, "the system refuses to make %s executable", g == GROUP_CODE ? "code" : "its data");
    __builtin___clear_cache((char *)base, (char *)base + l->group_bytes[GROUP_CODE]);
    return TCC_OK;
}

static tcc_status collect_functions(loader *l) {
    tcc_host_object *o = l->object;
    for (uint64_t i = 1; i < l->n_symbols; i++) {
        Elf64_Sym symbol;
        const char *name = "";
        TCC_TRY(read_symbol(l, i, &symbol, &name));
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) continue;
        function f = {0};
        TCC_TRY(locate(l, &symbol, name, &f.at));
        const section *home = &l->sections[symbol.st_shndx];
        if (home->group != GROUP_CODE || symbol.st_value >= home->header.sh_size)
            return FAIL(l, EFORMAT, "function '%s' lies outside the code", name);
        f.name = tcc_arena_strdup(&o->memory, name);
        if (!f.name || !tcc_vec_push(&o->functions, f)) return tcc_enomem(l->d);
    }
    return TCC_OK;
}

static tcc_status load(loader *l) {
    Elf64_Ehdr header;
    const machine *m;
    TCC_TRY(read_header(l, &header, &m));
    TCC_TRY(read_sections(l, &header));
    TCC_TRY(for_relocations(l, m, count_slot));
    TCC_TRY(map_sections(l));
    TCC_TRY(for_relocations(l, m, apply));
    TCC_TRY(collect_functions(l));
    return protect(l);
}

tcc_status tcc_host_object_load(tcc_diag *d, const char *name, const void *code, int64_t size_bytes,
                                tcc_host_object **out) {
    *out = NULL;
    loader l = {.d = d, .name = name, .bytes = code, .size = size_bytes < 0 ? 0 : (uint64_t)size_bytes};
    l.object = tcc__calloc(1, sizeof *l.object);
    if (!l.object) return tcc_enomem(d);
    tcc_status s = load(&l);
    tcc__free(l.sections);
    if (s == TCC_OK) *out = l.object;
    else tcc_host_object_destroy(l.object);
    return s;
}

tcc_host_kernel tcc_host_object_kernel(const tcc_host_object *o, const char *symbol) {
    for (int i = 0; i < o->functions.count; i++)
        if (!strcmp(o->functions.data[i].name, symbol)) {
            const void *address = o->mapping + o->functions.data[i].at;
            tcc_host_kernel kernel; /* ISO C has no cast from object to function pointer */
            memcpy(&kernel, &address, sizeof kernel);
            return kernel;
        }
    return NULL;
}

void tcc_host_object_destroy(tcc_host_object *o) {
    if (!o) return;
    if (o->mapping) munmap(o->mapping, o->mapping_bytes);
    tcc_vec_free(&o->functions);
    tcc_arena_free(&o->memory);
    tcc__free(o);
}

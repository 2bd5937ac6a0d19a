// The one argument of every CPU kernel: a struct for each family of dialects/plan/kernel_families.def, with
// the family's constants, what stands behind its roles, what it needs of the step, and the work items of this
// call. Stand-alone C: read by the kernels (which see no library), by the code generator that fills it, and
// by tests.
//
// Flags and choices are int64_t, choices QK_<Enumeration>_<Choice>. A role that the spec has not, or that is
// optional and not bound, is null. Of states and caches the struct has offsets: `<role>_offset`, bytes into a
// sequence's state, or bytes per token into its kv. The code generator fills in literals: a kernel copies the
// struct first thing, so that it is inlined as if each field were an argument of its own.
#ifndef QCC_CODEGEN_CPU_KERNELS_KERNEL_ARGS_H_
#define QCC_CODEGEN_CPU_KERNELS_KERNEL_ARGS_H_

#include <stdint.h>

#include "runtime/abi/program.h"

#define QCC_CHOICE(Name, Id, text) QK_##Name##_##Id,
#define QCC_CHOICES(Name, choices) enum { choices };
#include "dialects/plan/kernel_families.def"

// n_rows: rows that the dispatch has in this step. [begin, end): work items of this call. scratch: of this
// thread, 64-byte aligned, with whatever the last kernel left in it (scratch.h); shared_scratch: of all
// threads, likewise.
#define QCC_FAMILY(name, Name) typedef struct name##_args {
#define QCC_INT(key) int64_t key;
#define QCC_REAL(type, key) type key;
#define QCC_FLAG(key) int64_t key;
#define QCC_ENUM(type, key) int64_t key;
#define QCC_LIST(key, count) int64_t key[count]; /* zeros: none */
#define QCC_WEIGHT(role, element, ...) const element* role;
#define QCC_BUFFER(role, element, ...) element* role;
#define QCC_OUTPUT(role, element, ...) element* role;
#define QCC_STATE(role, ...) int64_t role##_offset;
#define QCC_KV(role, ...) int64_t role##_offset;
#define QCC_STEP(type, field) type field;
#define QCC_SCRATCH() uint8_t* scratch;
#define QCC_SHARED_SCRATCH() uint8_t* shared_scratch;
#define QCC_END(name, Name) \
  int64_t n_rows;           \
  int64_t begin;            \
  int64_t end;              \
  }                         \
  name##_args;
#include "dialects/plan/kernel_families.def"

// The fields of each struct as text, "type name;" in order: what the compiler compares when it links a kernel
// into a program. On one target, equal texts are equal layouts.
#define QCC_FAMILY(name, Name) static const char name##_args_fields[] __attribute__((unused)) =
#define QCC_INT(key) "int64_t " #key ";"
#define QCC_REAL(type, key) #type " " #key ";"
#define QCC_FLAG(key) "int64_t " #key ";"
#define QCC_ENUM(type, key) "int64_t " #key ";"
#define QCC_LIST(key, count) "int64_t[" #count "] " #key ";"
#define QCC_WEIGHT(role, element, ...) "const " #element "* " #role ";"
#define QCC_BUFFER(role, element, ...) #element "* " #role ";"
#define QCC_OUTPUT(role, element, ...) #element "* " #role ";"
#define QCC_STATE(role, ...) "int64_t " #role "_offset;"
#define QCC_KV(role, ...) "int64_t " #role "_offset;"
#define QCC_STEP(type, field) #type " " #field ";"
#define QCC_SCRATCH() "uint8_t* scratch;"
#define QCC_SHARED_SCRATCH() "uint8_t* shared_scratch;"
#define QCC_END(name, Name) "int64_t n_rows;int64_t begin;int64_t end;";
#include "dialects/plan/kernel_families.def"

#ifdef __cplusplus
// Stands in front of a kernel's definition: exports what its struct is, `<kernel>_signature`.
#define QK_SIGNATURE(kernel, family) QK_SIGNATURE_AS(kernel, #kernel, family)
// The same for a kernel whose symbol has another name.
#define QK_SIGNATURE_AS(kernel, symbol, family)                             \
  extern "C" {                                                              \
  extern const char* const kernel##_signature __asm__(symbol "_signature"); \
  const char* const kernel##_signature = family##_args_fields;              \
  }
#endif

#endif  // QCC_CODEGEN_CPU_KERNELS_KERNEL_ARGS_H_

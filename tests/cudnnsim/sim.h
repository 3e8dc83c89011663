/* SPDX-License-Identifier: MIT
 * Inside the stand-in: descriptors by tables. A kind of descriptor says which attributes it has, with type and count;
 * an operation also which of them are tensors that it reads and writes, and how it computes. A new operation is a file
 * with its kinds, and a row in sim_kinds (descriptor.c); a graph of several operations that an engine takes is a row in
 * patterns (graph.c). */
#ifndef CUDNNSIM_SIM_H
#define CUDNNSIM_SIM_H

#include "cudnnsim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SUCCESS = 0,
    NOT_INITIALIZED = 1001,
    BAD_PARAM = 2000,
    NOT_SUPPORTED = 3000,
    INTERNAL_ERROR = 4000,
    HOST_ALLOCATION_FAILED = 4003,
    EXECUTION_FAILED = 5000
};
enum { FLOAT32 = 0, FLOAT16 = 2, INT32 = 4, BFLOAT16 = 9, INT64 = 10, BOOLEAN8 = 11 }; /* data types */
enum {                                                                                 /* of attributes */
       HANDLE = 0,
       DATA_TYPE = 1,
       BOOLEAN = 2,
       INT64S = 3,
       FLOATS = 4,
       VOID_PTR = 6,
       CONVOLUTION_MODE = 7,
       HEUR_MODE = 8,
       KNOB_TYPE = 9,
       NUMERICAL_NOTE = 11,
       POINTWISE_MODE = 14,
       DESCRIPTOR = 15,
       REDUCTION_OPERATOR = 18,
       NORM_MODE = 27,
       NORM_PHASE = 28,
};
enum { /* kinds of descriptors */
       POINTWISE = 0,
       CONVOLUTION = 1,
       ENGINE = 2,
       ENGINECFG = 3,
       ENGINEHEUR = 4,
       EXECUTION_PLAN = 5,
       KNOB_CHOICE = 7,
       CONV_FORWARD = 10,
       CONV_FILTER = 11,
       CONV_DATA = 12,
       OPERATION_POINTWISE = 13,
       OPERATIONGRAPH = 15,
       VARIANT_PACK = 16,
       TENSOR = 17,
       PRODUCT = 18,
       OPERATION_PRODUCT = 19,
       REDUCTION = 21,
       OPERATION_REDUCTION = 22,
       NORM_FORWARD = 29,
       NORM_BACKWARD = 30,
       OPERATION_RESHAPE = 31,
};
enum { /* modes of work on elements, reductions */
       SIM_ADD = 0,
       SIM_MUL = 1,
       SIM_DIV = 6,
       SIM_SUB = 9,
       SIM_EXP = 13,
       SIM_LOG = 15,
       SIM_RELU = 100,
       SIM_CMP_GE = 303,
       SIM_GEN_INDEX = 501,
       SIM_SELECT = 601,
       SIM_SUM = 0,
       SIM_MAXIMUM = 3,
};
enum { MAX_DIMS = 8, MAX_ATTRIBUTES = 24, MAX_TENSORS = 64, MAX_OPERANDS = 16, MAX_OPERATIONS = 32 };

typedef struct descriptor descriptor;
typedef unsigned long long address;

typedef struct rule {
    int name, type;
    int64_t least, most; /* elements */
    bool optional;
    int of; /* DESCRIPTOR: of this kind; ANY: any operation */
} rule;
enum { ANY = -1 };
#define SOME(name_, type_, least_, most_) {.name = (name_), .type = (type_), .least = (least_), .most = (most_)}
#define ONE(name_, type_) SOME(name_, type_, 1, 1)
#define MAYBE(name_, type_) {.name = (name_), .type = (type_), .least = 1, .most = 1, .optional = true}
#define REFERENCES(name_, of_, most_) {.name = (name_), .type = DESCRIPTOR, .least = 1, .most = (most_), .of = (of_)}
#define REFERENCE(name_, of_) REFERENCES(name_, of_, 1)
#define MAYBE_REFERENCE(name_, of_) \
    {.name = (name_), .type = DESCRIPTOR, .least = 1, .most = 1, .optional = true, .of = (of_)}

/* A tensor's elements, dense and row-major by its dims. */
typedef struct value {
    const descriptor *tensor;
    int rank, type;
    int64_t dims[MAX_DIMS], strides[MAX_DIMS], count; /* strides: in memory */
    double *data;
} value;

typedef struct kind {
    int type;
    const char *name;
    rule rules[MAX_ATTRIBUTES]; /* ends with most == 0 */
    int (*finalize)(descriptor *d);
    /* operations: attributes with tensors, ended by 0; an optional one that was not set is NULL to evaluate */
    int reads[MAX_OPERANDS], writes[MAX_OPERANDS];
    int (*evaluate)(const descriptor *operation, value *const *reads, value *const *writes);
} kind;

struct descriptor {
    uint32_t mark;
    const kind *kind;
    bool final;
    int users; /* descriptors that hold this one */
    int n;
    struct attribute {
        int name;
        int64_t count;
        void *data;
    } attributes[MAX_ATTRIBUTES];
    int engine;        /* of an ENGINE, an ENGINECFG and a KNOB_CHOICE that were filled */
    int knob;          /* of the engine's, of a KNOB_CHOICE */
    descriptor *graph; /* likewise; held */
};

extern const kind sim_convolution, sim_conv_forward, sim_conv_filter, sim_conv_data; /* convolution.c */
extern const kind sim_pointwise, sim_operation_pointwise;                            /* pointwise.c */
extern const kind sim_product, sim_operation_product, sim_reduction, sim_operation_reduction,
    sim_reshape;                                                                                   /* products.c */
extern const kind sim_norm_forward, sim_norm_backward;                                             /* norm.c */
extern const kind sim_graph, sim_heuristics, sim_config, sim_engine, sim_plan, sim_pack, sim_knob; /* graph.c */

/* Records what was wrong with a call; BAD_PARAM. */
int sim_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Counts a call; the status that it is to fail with. */
int sim_enter(void);
#define ENTER()                      \
    do {                             \
        int status_ = sim_enter();   \
        if (status_) return status_; \
    } while (0)
extern cudnnsim_counts sim_counts;
extern int sim_relu_of_nan, sim_running; /* that runs now */
extern unsigned sim_refused, sim_relu_engines;

bool sim_is_handle(const void *handle);
/* The stream of a handle. */
void *sim_stream_of(const void *handle);

/* A live descriptor of that kind; NULL: it is none such. */
descriptor *sim_descriptor(void *at, int type);
/* The elements of an attribute; NULL: not set. */
const void *sim_get(const descriptor *d, int name, int64_t *count);
/* One element, which is set. */
int64_t sim_int64(const descriptor *d, int name);
int sim_int(const descriptor *d, int name);
float sim_float(const descriptor *d, int name);
/* NULL: not set. */
descriptor *sim_reference(const descriptor *d, int name);
bool sim_flag(const descriptor *d, int name); /* false: not set */

/* Whether there is an engine for it: channels that are last come 16 bytes at once. */
bool sim_norm_has_engine(const descriptor *operation);

/* Shape and strides of a tensor, no elements. */
value sim_value_of(const descriptor *tensor);
int64_t sim_bytes(int data_type);
double sim_element(const void *at, int data_type, int64_t i);
void sim_put(void *at, int data_type, int64_t i, double x);
double sim_round(double x, int data_type);

/* The driver, by the names of its functions. */
bool sim_open_driver(void);
bool sim_has_context(void);
/* What lies there in device memory, allocated; or a failure: of that many bytes nothing is there. */
int sim_fetch(address at, int64_t bytes, void *stream, const char *what, void **out);
int sim_store(address at, const void *from, int64_t bytes, void *stream);
/* It is memory of so many bytes. */
bool sim_is_memory(address at, int64_t bytes);

#endif

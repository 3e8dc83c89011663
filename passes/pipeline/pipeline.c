/* SPDX-License-Identifier: MIT
 * The pipeline: which passes run, in which order, when. */
#include "passes/pipeline/pipeline.h"

#define ALWAYS TCC_WHEN_ALWAYS
#define IF_AMP TCC_WHEN_AMP
#define IF_TRAINING TCC_WHEN_TRAINING
#define IF_GRADIENTS TCC_WHEN_GRADIENTS
#define IF_RANKS TCC_WHEN_RANKS
#define UNLESS_EAGER TCC_WHEN_FUSING
#define IF_VECTORS TCC_WHEN_VECTORS
#define IF_ALIGNED TCC_WHEN_ALIGNED
#define IF_PLACES TCC_WHEN_PLACES
#define IF_NORMS TCC_WHEN_NORMS
#define IF_STAGES TCC_WHEN_STAGES
#define IF_REMAT TCC_WHEN_REMAT
#define IF_TARGET TCC_WHEN_TARGET
enum { MUST, MAY_SKIP };

/* clang-format off */
const tcc_pipeline_step tcc_pipeline_steps[] = {
    {TCC_PASS_AMP,         IF_AMP,       MUST},     /* sees the ops as the user wrote them */
    {TCC_PASS_SIMPLIFY,    ALWAYS,       MAY_SKIP},
    {TCC_PASS_AUTODIFF,    IF_GRADIENTS, MUST},     /* before decompose: gradient rules know composites */
    {TCC_PASS_DISTRIBUTE,  IF_RANKS,     MUST},     /* before train-step, for which gradients are those of all ranks */
    {TCC_PASS_TRAIN_STEP,  IF_TRAINING,  MUST},
    {TCC_PASS_LOW_COPIES,  IF_AMP,       MAY_SKIP}, /* after the updates of weights */
    {TCC_PASS_DECOMPOSE,   ALWAYS,       MUST},
    {TCC_PASS_SIMPLIFY,    ALWAYS,       MAY_SKIP}, /* layout looks for primitive patterns */
    {TCC_PASS_CHUNK,       UNLESS_EAGER, MAY_SKIP}, /* follows rows through primitive ops */
    {TCC_PASS_SUBPIXEL,    IF_VECTORS,   MAY_SKIP}, /* before layout: what is moved is dims of the plain form */
    {TCC_PASS_LAYOUT,      UNLESS_EAGER, MAY_SKIP},
    {TCC_PASS_ALIGN,       IF_ALIGNED,   MAY_SKIP}, /* after layout: rows are of channels */
    {TCC_PASS_PLACES,      IF_PLACES,    MAY_SKIP},
    {TCC_PASS_SIMPLIFY,    UNLESS_EAGER, MAY_SKIP}, /* transposes that layout pushed together cancel here */
    {TCC_PASS_NORMS,       IF_NORMS,     MUST},     /* after layout: the library sees the norms' strides */
    {TCC_PASS_SIMPLIFY,    IF_NORMS,     MAY_SKIP},
    {TCC_PASS_STAGES,      IF_STAGES,    MAY_SKIP}, /* after simplify, for which two sums in a row are one */
    {TCC_PASS_REMAT,       IF_REMAT,     MUST},     /* tries the passes behind it */
    {TCC_PASS_FUSE,        ALWAYS,       MUST},     /* from here on the nodes stay as they are */
    {TCC_PASS_SELECT,      IF_TARGET,    MUST},     /* the last to make groups */
    {TCC_PASS_ORDER,       UNLESS_EAGER, MAY_SKIP},
    {TCC_PASS_PLAN_MEMORY, ALWAYS,       MUST},     /* last: needs the final order */
};
/* clang-format on */

const int tcc_pipeline_count = sizeof tcc_pipeline_steps / sizeof tcc_pipeline_steps[0];

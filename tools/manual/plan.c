/* SPDX-License-Identifier: MIT
 * Examples of plan.h. */
#include "examples.h"

EXAMPLE(tcc_model_save_plan) { TCC_TRY(tcc_model_save_plan(model, "version 3, trained by night", "model.plan")); }

EXAMPLE(tcc_model_load_plan) {
    tcc_model *loaded;
    TCC_TRY(tcc_model_save_plan(model, NULL, "model.plan"));
    TCC_TRY(tcc_model_load_plan(cx, "model.plan", NULL, &loaded));
    printf("%s\n", tcc_model_device(loaded)); /* cpu */
    tcc_model_destroy(loaded);
}

EXAMPLE(tcc_plan_about) {
    char *about;
    TCC_TRY(tcc_model_save_plan(model, "version 3", "model.plan"));
    TCC_TRY(tcc_plan_about(cx, "model.plan", &about));
    printf("%s\n", about); /* version 3 */
    tcc_string_free(about);
}

# Written by reached.py: tests that config.sanitizers does without, since the others reach each line of the product that
# these reach. It is made anew when those others lose cases, and from time to time.
# They would take 126 of 1131 s.
set(reached
    unit.test_concat_parts
    unit.test_math
    unit.test_pads
    unit.test_short_rows
    unit.test_strbuf
    numerics.test_accumulate_golden
    numerics.test_codegen_norms
    numerics.test_codegen_scatter
    numerics.test_gradients_random
    numerics.test_random_training
    numerics.test_segmentation
    e2e.test_anomaly
    e2e.test_cached_kernels
    e2e.test_small_stack
    e2e.test_sync_batch_norm
    examples.gpt
    examples.lstm_text
    examples.vit
    ptxsim.test_ptxsim_independent
    ptxsim.test_ptxsim_numerics
    ptxsim.test_ptxsim_nvcc
    ptxsim.test_ptxsim_wide)

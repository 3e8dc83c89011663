# Written by reached.py: tests that config.sanitizers does without, since the others reach each line of the product that
# these reach. It is made anew when those others lose cases, and from time to time.
# They would take 62 of 473 s.
set(reached
    e2e.test_anomaly
    e2e.test_train_killed
    examples.gpt
    examples.unet
    examples.vit
    numerics.test_accumulate_golden
    numerics.test_codegen_norms
    numerics.test_gradients_random
    numerics.test_random_training
    ptxsim.test_ptxsim_wide)

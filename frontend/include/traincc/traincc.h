/* SPDX-License-Identifier: MIT
 * TrainCC: everything a program that trains needs. */
#ifndef TRAINCC_TRAINCC_H
#define TRAINCC_TRAINCC_H

#include "traincc/array.h"
#include "traincc/cache.h"
#include "traincc/checkpoint.h"
#include "traincc/comm.h"
#include "traincc/context.h"
#include "traincc/functions.h"
#include "traincc/losses.h"
#include "traincc/model.h"
#include "traincc/models.h"
#include "traincc/nn.h"
#include "traincc/plan.h"
#include "traincc/random.h"
#include "traincc/run.h"
#include "traincc/schedule.h"
#include "traincc/tensor.h"

#endif

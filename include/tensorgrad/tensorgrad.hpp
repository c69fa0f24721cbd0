// tensorgrad: train and run neural networks on any GPU through WebGPU, and on a plain CPU.
// This is the one header a program needs.
#pragma once

#include "tensorgrad/autograd.hpp"
#include "tensorgrad/compile.hpp"
#include "tensorgrad/decoder.hpp"
#include "tensorgrad/device.hpp"
#include "tensorgrad/error.hpp"
#include "tensorgrad/graph.hpp"
#include "tensorgrad/mamba.hpp"
#include "tensorgrad/models.hpp"
#include "tensorgrad/module.hpp"
#include "tensorgrad/nn.hpp"
#include "tensorgrad/ops.hpp"
#include "tensorgrad/optim.hpp"
#include "tensorgrad/passes.hpp"
#include "tensorgrad/plan.hpp"
#include "tensorgrad/random.hpp"
#include "tensorgrad/runtime.hpp"
#include "tensorgrad/safetensors.hpp"
#include "tensorgrad/trace.hpp"
#include "tensorgrad/weights.hpp"

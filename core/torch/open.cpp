// What the program finds in this library when it opens it: the tensor interface, the jobs, and apply for tensors.
#include "core/plugin/host.hpp"
#include "core/run/apply.hpp"
#include "core/run/torch_library.hpp"
#include "core/torch/apply_tensors.hpp"
#include "core/torch/jobs/jobs.hpp"
#include "core/torch/tensors_api.hpp"
#include "kinora/abi/plugin.h"

extern "C" KINORA_EXPORT void kinora_torch_open(const kinora_host* host) {
  using namespace kinora::core;
  kinora::g_host = host;
  register_interface(KINORA_TENSORS, KINORA_ABI_MINOR, tensors_api_table());
  register_job("train-tokenizer", run_train_tokenizer);
  register_job("encode", run_encode);
  register_job("train", run_train);
  register_job("generate", run_generate);
  register_apply("tokenizer", apply_tokenizer);
  register_apply("model", apply_model);
  register_apply("loss", apply_loss);
  register_apply("sampler", apply_sampler);
  register_apply("precision", apply_precision);
}

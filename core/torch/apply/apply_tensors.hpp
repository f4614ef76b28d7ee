// `kinora apply` for components that work on tensors: safetensors in, safetensors out, with the names of the
// interface.
#pragma once
#include "core/run/apply.hpp"

namespace kinora::core {

ApplyResult apply_tokenizer(Runtime&, const ApplyRequest&);  // --method encode | decode | encode_decode
ApplyResult apply_model(Runtime&, const ApplyRequest&);      // --method forward | gradient
ApplyResult apply_loss(Runtime&, const ApplyRequest&);
ApplyResult apply_sampler(Runtime&, const ApplyRequest&);    // on the Gaussian mixture mean, std, weight
ApplyResult apply_precision(Runtime&, const ApplyRequest&);  // --method quantize

}  // namespace kinora::core

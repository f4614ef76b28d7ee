// The stand-in for no text: the encoding of an empty text, which an encode job with encode_empty writes once into its
// folder, or zeros. Training drops captions to it, and generation guides away from it.
#pragma once
#include <ATen/core/Tensor.h>

#include "core/run/job.hpp"

namespace kinora::core {

// Writes the file and adds it to the list of the job's summary. encoded: [L, D] of "".
void write_no_text(JobContext&, const at::Tensor& encoded);
// That of the encode job before a train job; undefined: zeros. Throws Error(KINORA_ERROR_NOT_FOUND) if the job has no
// such file, and Error(KINORA_ERROR_DATA) if it is damaged.
at::Tensor no_text_of(const JobView& train);

}  // namespace kinora::core

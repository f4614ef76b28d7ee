// The jobs that hold tensors, and what they share.
#pragma once
#include <filesystem>

#include <ATen/core/Tensor.h>

#include "core/run/job.hpp"
#include "core/torch/context/network.hpp"

namespace kinora::core {

void run_train_tokenizer(JobContext&);
void run_encode(JobContext&);
void run_embed_text(JobContext&);
void run_train(JobContext&);
void run_generate(JobContext&);

// {"words", "text", "words_options", "text_options", "weights", "max_tokens", "device"}: an encoder as
// text.json of an embed-text job has it; "texts" -> {"embeddings": [[D numbers]]}, each of length 1.
json embed_texts(Runtime&, const json& request);

// `count` frames of uint8 [T, H, W, 3], evenly spaced, side by side in one PNG, which says `comment` of
// itself.
void write_strip(JobContext&, const at::Tensor& frames, int64_t count, const std::filesystem::path& file,
                 const std::string& comment = "");
// Threads of tensor operations; 0 leaves libtorch's choice.
void use_threads(int64_t threads);

}  // namespace kinora::core

// What the stages of this plugin share: files into memory, ids onto samples.
#pragma once
#include <string>
#include <vector>

#include "kinora/sample.hpp"

namespace kinora::text {

// The whole file. Throws Error if it is larger than any tokenizer is; `meant` says what should be given.
std::string read_file(const std::string& path, const std::string& meant);
// Sets the tensor, int64 [L].
void set_ids(Sample& sample, const char* name, const std::vector<int64_t>& values);

}  // namespace kinora::text

// Helpers of this plugin's stages: read files, set ids on samples.
#pragma once
#include <string>
#include <vector>

#include "kinora/sample.hpp"

namespace kinora::text {

// Reads the whole file. Throws Error if it is larger than any tokenizer; `meant` names the expected file.
std::string read_file(const std::string& path, const std::string& meant);
// Sets tensor `name`, int64 [L].
void set_ids(Sample& sample, const char* name, const std::vector<int64_t>& values);

}  // namespace kinora::text

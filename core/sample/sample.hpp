// Samples as the host keeps them (kinora.samples/1, see the SDK's abi/sample.h). Core uses them through
// kinora::Sample.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kinora/abi/sample.h"

namespace kinora::core {

const kinora_samples_api& samples_table();

// Makes a key of any name, such as a file's without its ending. Characters that a key may not hold become '-'
// or U+FFFD, a long name is cut, and an empty one becomes "film".
std::string key_of_name(std::string_view name);

// [owner-thread] Which tensors a sample of that table has, in the order they were set.
std::vector<std::string> tensor_names(const kinora_sample*);

// [owner-thread] For code that meets again what it has put into a sample. Borrowed; null if there is none: a
// tensor as it was given, and the `user` of a field whose bytes `release` hands back.
const kinora_dl_managed* managed_tensor(const kinora_sample*, std::string_view name);
void* user_of_field(const kinora_sample*, std::string_view name, void (*release)(void*));

}  // namespace kinora::core

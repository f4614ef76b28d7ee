// `kinora convert`: converts weights from one file layout, naming scheme or dtype to another, and merges
// adapters into weights or extracts them. One tensor at a time is in memory; tensors that are only renamed
// keep their bytes.
#pragma once
#include "core/runtime/runtime.hpp"

namespace kinora::core {

// request: {"in", "out", "component", "from", "to", "dtype", "max_shard", "merge", "unmerge", "options"};
// empty strings and 0 mean not given. `out`: X.safetensors, or a folder as diffusers writes it (as
// transformers does, for a model of input_ids) with the input's config.json. Existing files are never
// replaced. Returns {"file", "tensors", "bytes", "from", "to", "dropped", "merged"}. Throws kinora::Error.
json convert_weights(Runtime& runtime, const json& request);
// component: the one that request["component"] names; null: none.
json convert_weights(const Component* component, const json& request);

}  // namespace kinora::core

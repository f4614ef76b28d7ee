// A few samples of a folder, spread over its shards, with the contents that a caller wants.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinora/energon.hpp"
#include "plugins/jobs/data/problem.hpp"

namespace kinora::data {

// Bytes of one field. Throws Error.
std::vector<uint8_t> read_part(const RandomBytes& shard, const energon::StoredSample::Part& part);

// Calls each() with about `most` samples: the first ones of every shard, or of as many shards as samples are
// wanted. A damaged shard gives those before the damage, which goes to `damage` if it is among them.
void some_samples(
    const DataFolder& folder, uint64_t most,
    const std::function<void(const Shard&, const RandomBytes&, const energon::StoredSample&)>& each,
    const OnProblem& damage);

}  // namespace kinora::data
